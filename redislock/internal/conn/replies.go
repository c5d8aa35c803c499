// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver/storekit"
)

// reply explains a kind of error of the server, and says what to do.
type reply struct {
	prefix string // of the error's text, without the "ERR " that rueidis removes
	hint   string // what the error means, and what to write in the URL
	client string // what to change in the client for goredis.New; empty if the client is right
	doctor string // what to do at the server, for pawl doctor; if empty, the hint says it
	kind   error  // for storekit.OfKind; nil if the error may pass, so that asking again may help
}

// forbidden begins the error of a script that runs a command for which the user has no right.
const forbidden = "The user executing the script can't"

// replies are the errors that Explain explains. With each of them the server has answered, and
// has recorded nothing.
var replies = []reply{
	{
		"LAYOUT",
		"another version of pawl has used this store and prefix: use that version, or another Prefix (?prefix=)",
		"another Prefix in redislock.Options",
		"see who has used it: redis-cli GET pawl:epoch; then give one of the two programs another ?prefix=",
		storekit.ErrConfig,
	},
	{
		"NOAUTH",
		"the server wants a password: put it into the URL, as redis://:PASSWORD@host, into a file named by ?password_file=, or into " + PasswordEnv + "; that of sentinels is ?sentinel_password=",
		"the client's Password",
		"put the password into PAWL_REDIS_PASSWORD, and run pawl doctor again",
		storekit.ErrDenied,
	},
	{
		"WRONGPASS",
		"the server refuses this user or password; a password alone is written redis://:PASSWORD@host; those of sentinels are ?sentinel_username= and ?sentinel_password=",
		"the client's Username and Password",
		"see whether there is such a user: redis-cli ACL GETUSER NAME, and what it has tried: redis-cli ACL LOG 5",
		storekit.ErrDenied,
	},
	{
		"AUTH",
		"the server has no password for this user: leave it out",
		"a client without Username",
		"leave user and password out of the URL and of PAWL_REDIS_PASSWORD, or give the server a user: redis-cli ACL SETUSER NAME",
		storekit.ErrConfig,
	},
	{
		"Client sent AUTH",
		"the server has no password: leave it out",
		"a client without Password",
		"leave the password out of the URL and of PAWL_REDIS_PASSWORD, or give the server one: redis-cli CONFIG SET requirepass PASSWORD",
		storekit.ErrConfig,
	},
	{
		"NOPERM",
		"the user lacks a right: see docs/redis-protocol.md for the least rights",
		"",
		"see which command and key it is: redis-cli ACL LOG 5; then redis-cli ACL SETUSER NAME with the rights in docs/redis-protocol.md",
		storekit.ErrDenied,
	},
	{
		"READONLY",
		"this server is a replica: use the address of its master",
		"a client of the master, or redis.NewFailoverClient",
		"see master_host in redis-cli INFO replication, and use that address",
		nil,
	},
	{
		"LOADING",
		"the server is reading its data from disk: try again soon",
		"",
		"wait: redis-cli INFO persistence says how long (loading_eta_seconds)",
		nil,
	},
	{
		"OOM",
		"the server has reached maxmemory: give it more, or free some",
		"",
		"redis-cli CONFIG SET maxmemory BYTES, or see what fills it: redis-cli --bigkeys",
		nil,
	},
	{
		"MASTERDOWN",
		"this server is a replica that has lost its master: use the address of the master",
		"a client of the master, or redis.NewFailoverClient",
		"see master_host in redis-cli INFO replication: start that server, or promote this one: redis-cli REPLICAOF NO ONE",
		nil,
	},
	{
		"CLUSTERDOWN",
		"the cluster is down, for want of a master or of a majority of them: see CLUSTER INFO; with cluster-require-full-coverage no it goes on without a part",
		"",
		"redis-cli --cluster check HOST:PORT",
		nil,
	},
	{
		"TRYAGAIN",
		"the hash slot of this lock is moving to another node: try again; if that does not end, see redis-cli --cluster check",
		"",
		"redis-cli --cluster check HOST:PORT, and --cluster fix if a slot does not get on",
		nil,
	},
	{
		"ASK",
		"the nodes of the cluster disagree about who has this hash slot: see redis-cli --cluster check",
		"",
		"redis-cli --cluster check HOST:PORT, and --cluster fix if a slot does not get on",
		nil,
	},
	{
		"MOVED",
		"this server belongs to a cluster: name several of its nodes (?addr=); if you have, they disagree: see redis-cli --cluster check",
		"redis.NewClusterClient",
		"name several nodes in the URL: ?addr=HOST:PORT; if it has them: redis-cli --cluster check HOST:PORT",
		nil,
	},
	{
		"CROSSSLOT",
		"this server belongs to a cluster: name several of its nodes (?addr=)",
		"redis.NewClusterClient",
		"name several nodes in the URL: ?addr=HOST:PORT",
		storekit.ErrConfig,
	},
	{
		"DB index is out of range",
		"the server has fewer databases: see CONFIG GET databases, and the number at the end of the URL (?db=)",
		"the client's DB",
		"see redis-cli CONFIG GET databases, and use a smaller number in the URL",
		storekit.ErrConfig,
	},
	{
		"SELECT is not allowed",
		"this server belongs to a cluster, which has database 0 only: leave the number of the database out",
		"a client with DB 0",
		"leave the number of the database out of the URL",
		storekit.ErrConfig,
	},
	{
		"This instance has cluster support disabled",
		"this server belongs to no cluster: leave addr out, or add master_set if the addresses are those of sentinels",
		"redis.NewClient",
		"leave ?addr= out of the URL, or add ?master_set=NAME if the addresses are those of sentinels",
		storekit.ErrConfig,
	},
	{
		"MISCONF",
		"the server cannot write to its disk and accepts no writes: see its log",
		"",
		"see rdb_last_bgsave_status and aof_last_write_status in redis-cli INFO persistence, and the log; free some space on its disk",
		nil,
	},
	{
		"NOREPLICAS",
		"the server has fewer replicas than min-replicas-to-write asks for",
		"",
		"see redis-cli INFO replication, and start the replicas",
		nil,
	},
	{
		"BUSY",
		"the server is busy with a slow script: see SCRIPT KILL",
		"",
		"redis-cli SCRIPT KILL, or FUNCTION KILL",
		nil,
	},
	{
		"Script killed",
		"somebody has stopped the script with SCRIPT KILL: try again",
		"",
		"see who runs SCRIPT KILL",
		nil,
	},
	{
		"max number of clients",
		"the server has as many clients as maxclients allows",
		"",
		"see whose they are: redis-cli CLIENT LIST; or redis-cli CONFIG SET maxclients NUMBER",
		nil,
	},
	{
		"WRONGTYPE",
		"a key of this lock is used by another program: choose another Prefix",
		"another Prefix in redislock.Options",
		`see the findings of the check "keys", which name the key and delete it`,
		storekit.ErrConfig,
	},
	{
		"Can't execute",
		"the server answers HELLO 3 and takes no other command on a connection with a subscription, as servers of RESP3 do: is it an imitation of Redis? With Mode Efficiency (?mode=efficiency) there are no subscriptions",
		"Mode Efficiency in redislock.Options",
		"use a server of Redis 7 or later, or ?mode=efficiency",
		storekit.ErrConfig,
	},
	{
		"received unknown message type",
		"what answers is no Redis server: check host and port",
		"the client's Addr",
		"see what listens there: redis-cli -h HOST -p PORT PING",
		storekit.ErrConfig,
	},
	{
		"NOSCRIPT",
		"the server has forgotten its scripts again and again: is it one server?",
		"",
		"see how many servers answer at that address: redis-cli INFO server, run_id, several times",
		nil,
	},
}

// replyOf returns the element of replies for the text of a server's error, or nil.
func replyOf(text string) *reply {
	if strings.HasPrefix(text, forbidden) {
		text = "NOPERM"
	}
	if i := slices.IndexFunc(replies, func(r reply) bool { return strings.HasPrefix(text, r.prefix) }); i >= 0 {
		return &replies[i]
	}
	return nil
}

// Known reports whether replies has the text of a server's error. Servers return such an
// error for any command.
func Known(text string) bool { return replyOf(text) != nil }
