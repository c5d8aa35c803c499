// SPDX-License-Identifier: Apache-2.0

// Package epoch makes sure that a Redis server that may have forgotten leases grants
// nothing until they have ended. It binds scripts to one run of the server. The server
// keeps a record of its epoch: the time since which it has forgotten nothing. The scripts
// grant nothing until the epoch is MaxTTL old.
//
// The packages that use epoch provide the scripts for locks.
package epoch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Config is the configuration of a Server.
type Config struct {
	Addr    string        // of the server, for people
	Owned   bool          // Close closes the client
	Contact *conn.Contact // of the client's Place; nil if the caller has made the client
	ID      string        // of this participant
	Prefix  string        // of all keys
	Layout  *keys.Layout  // says which keys locks have
	Channel string        // Listen subscribes to Channel + ID

	Limit     *Limit        // what the participant knows of MaxTTL
	Slots     Slots         // for a master of a cluster; otherwise nil
	Timeout   time.Duration // to connect
	Unguarded bool          // accept a server that cannot be guarded

	Replicas       int           // how many must confirm each grant and each renewal
	ReplicaTimeout time.Duration // for their confirmation

	// Scripts are the scripts for locks. Run takes an index into them. The Server puts lua/guard.lua
	// before each. Without Scripts only Send works, and nothing is bound to a run.
	Scripts []Script
	// Commands are calls, in Lua, that Scripts make and that lua/check.lua does not yet try. z is the key of
	// an unused sorted set.
	Commands string

	// Hear handles a message. It must not block, because it delays replies on the same connection. If it
	// is nil, there is no subscription.
	Hear func(from conn.Session, message string)
	// Opened is called whenever a subscription opens. Messages from before that are lost.
	Opened func(*conn.Subscription)
	// Missed is called when messages may have been lost. It may be nil.
	Missed func(at *conn.Conn)
	// News is called when a run is found in quarantine, and when the server has been silent for a second.
	// While that lasts it may be called again once a minute. It may be nil.
	News func(driver.News)
}

// Script is a script for locks. Its reply is an array that begins with a number: noEpoch if quarantine()
// in guard.lua has returned that.
type Script struct {
	Text string
	// Grants says that the script may grant a lease, and so needs an epoch. It returns beyondLimit and
	// the TTL if the TTL is too long.
	Grants bool
	// Renews says that the script may renew a lease.
	Renews bool
	// PerRequest, if positive, says that the script takes many requests at a time, and returns an array
	// of replies. It is the number of arguments that each request has: the last ones. The other arguments,
	// and the first key, must be the same for all requests, and are sent once. A call has the first key, then
	// the second keys of all requests, then their third keys, and so on. In the same way it has the common
	// arguments, then the first own arguments of all requests, and so on.
	PerRequest int
}

// Leases reports whether the script may grant or renew a lease.
func (s *Script) Leases() bool { return s.Grants || s.Renews }

// Slots is the part of a cluster that a master needs: it has a record for each of its hash slots, not one for all.
type Slots interface {
	// Rejoin joins, in the run of b, the epochs of all slots that before had joined.
	Rejoin(ctx context.Context, s *Server, wire rueidis.CommandClient, b, before *Binding) error
	// SomeKey returns a key in any slot of the master, or "" if it has none.
	SomeKey(s *Server) string
}

// Server is one Redis server. With sentinels, it is the present master.
type Server struct {
	Config
	*conn.Conn
	texts        []string // of the scripts, without guard.lua and the line for the run
	subscription *conn.Subscription

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the listener

	epochKey string // unless it is a master of a cluster
	batches  batches
	writes   atomic.Bool // this participant has asked for a grant
	astray   astray

	mu      sync.Mutex // guards the fields below
	binding *Binding
	moves   moves

	replicas replicas
	told     struct {
		closed driver.Instant // when News last got Closed
		run    string         // of that news
		silent driver.Instant // when News last got Silent
	}
}

// New returns the Server of a client. It sends nothing; see Bind and Listen.
func New(client rueidis.Client, conf Config) *Server {
	s := &Server{Config: conf, Conn: conn.New(client, conf.Contact), subscription: conn.NewSubscription(conf.Opened), epochKey: conf.Prefix + "epoch"}
	for _, script := range conf.Scripts {
		s.texts = append(s.texts, script.Text)
	}
	s.texts = append(s.texts, epochLua, markLua, Whole(checkLua, conf.Commands))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.batches.ctx, s.batches.send = s.ctx, s.evalsha
	return s
}

// EpochKey returns the key of the record of the epoch. In a cluster see Cluster.EpochKey.
func (s *Server) EpochKey() string { return s.epochKey }

// Subscription returns the subscription that delivers messages to this participant.
func (s *Server) Subscription() *conn.Subscription { return s.subscription }

// Send sends a command about a key, without the scripts of Config.
func (s *Server) Send(ctx context.Context, _ string, cmd func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	made, now := s.Made(), driver.Now()
	r := s.Do(ctx, cmd(s.Client.B()))
	switch err := r.Error(); {
	case err == nil:
		s.astray.useful()
	case conn.IsReplica(err) && s.astray.pause(now) == nil:
		s.astray.vain(err)
		s.drop(made) // the next request connects anew to the address
	case conn.IsReplica(err):
		rest(ctx)
	}
	return r
}

// Close stops the Server's goroutines, and closes the client if it is Owned. It makes
// requests under way fail with errors that mean nothing, so the driver must end them
// before. Call Hush first.
func (s *Server) Close() {
	s.replicas.mu.Lock() // after this, nextRound starts no goroutine
	s.cancel()
	s.replicas.mu.Unlock()
	if s.Owned {
		s.Conn.Close()
	}
	s.work.Wait()
	s.replicas.hangUp()
}
