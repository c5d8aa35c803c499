// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Examine implements driver.Store. It examines all masters of a cluster at the same time, then the keys of one after the
// other.
func (s *store) Examine(ctx context.Context) []driver.Finding {
	servers, err := s.server.Servers(ctx)
	if err != nil {
		return []driver.Finding{{Check: "server", Level: driver.Problem, Text: "the masters of the cluster are not known: " + err.Error(), Do: "see: redis-cli --cluster check HOST:PORT"}}
	}
	found := epoch.Examine(ctx, servers)
	for _, srv := range servers {
		found = append(found, s.foreignKeys(ctx, srv)...)
	}
	return found
}

// maxForeign is how many foreign keys of a server are reported. If there are more, another program uses the prefix.
const maxForeign = 20

// foreignKeys reports keys that block a lock, and that another program or a person has written. Such a key blocks its
// lock until it expires, or for ever if it has no TTL.
func (s *store) foreignKeys(ctx context.Context, srv *epoch.Server) []driver.Finding {
	var found []driver.Finding
	for _, pattern := range append(s.layout.Patterns("", queueSuffix), s.prefix+"token:*") {
		err := scan(ctx, srv, pattern, func(keys []string) error {
			some, err := s.foreignAmong(ctx, srv, keys)
			if found = append(found, some...); len(found) > maxForeign {
				return errEnough
			}
			return err
		})
		if err == errEnough {
			return append(found[:maxForeign], driver.Finding{Check: "keys", Server: srv.Addr, Level: driver.Problem,
				Text: "there are more such keys", Do: "delete them too, or choose another Prefix (?prefix=)"})
		}
		if err != nil {
			return append(found, driver.Finding{Check: "keys", Server: srv.Addr, Text: "not all keys under the prefix were looked at: " + err.Error()})
		}
	}
	return found
}

var errEnough = errors.New("enough keys")

// foreignAmong returns the findings about some keys.
func (s *store) foreignAmong(ctx context.Context, srv *epoch.Server, keys []string) (found []driver.Finding, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	replies, err := s.server.Read(ctx, keys, func(b rueidis.Builder, key string) []rueidis.Completed {
		return []rueidis.Completed{b.Get().Key(key).Build(), b.Pttl().Key(key).Build(), b.Zrange().Key(key).Min("0").Max("0").Build()}
	})
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		pttl, err := replies[i][1].AsInt64()
		if err != nil {
			return found, err
		}
		if pttl == noKey {
			continue
		}
		has := content{ends: pttl >= 0}
		has.value, has.noText = replies[i][0].ToString()
		if members, _ := replies[i][2].AsStrSlice(); len(members) > 0 {
			_, kind, _ := parseAttempt(members[0])
			has.attempts = kind != ""
		}
		if wrong := s.wrong(key, has); wrong != "" {
			f := driver.Finding{Check: "keys", Server: srv.Addr, Level: driver.Problem, Text: fmt.Sprintf("the key %q ", key) + wrong,
				Do: "see whose it is, then: " + deleteCommand(srv, key)}
			if has.ends {
				f.Level, f.Text = driver.Warning, f.Text+fmt.Sprintf("; it expires in %v", (time.Duration(pttl)*time.Millisecond).Round(time.Second))
			}
			found = append(found, f)
		}
	}
	return found, nil
}

// content is the content of a key.
type content struct {
	value    string // the value of a string
	noText   error  // why it is no string
	attempts bool   // it is a queue, or a lock that several leases hold together
	ends     bool   // the key has a TTL
}

// wrong describes what is wrong with a key. It returns "" for a key that blocks nothing.
func (s *store) wrong(key string, has content) string {
	if queueOf, isQueue := s.layout.NameBeside(key, queueSuffix); isQueue {
		if has.attempts {
			return ""
		}
		return fmt.Sprintf("is of another program: nobody can wait for the lock %q", queueOf)
	}
	if name, isLock := s.layout.Name(key); isLock {
		return s.wrongLock(name, has)
	}
	if _, number := strconv.ParseInt(has.value, 10, 64); strings.HasPrefix(key, s.prefix+"token:") && (has.noText != nil || number != nil) {
		return "is of another program: no lock can be granted whose tokens it should count"
	}
	return ""
}

// wrongLock is wrong for the key of a lock. With a Pattern any type of key may be another library's lock.
func (s *store) wrongLock(name string, has content) string {
	known := has.noText == nil || has.attempts || s.layout.Pattern != ""
	switch {
	case !known:
		return fmt.Sprintf("is of another type and of another program: the lock %q cannot be granted", name)
	case !has.ends:
		return fmt.Sprintf("has no TTL: the lock %q is held for ever", name)
	}
	return ""
}

// deleteCommand returns the shell command that deletes a key. It contains no password.
func deleteCommand(srv *epoch.Server, key string) string {
	cli := "redis-cli"
	u, err := url.Parse(srv.Addr)          // Addr is a URL, or host:port in a cluster
	for addr := range srv.Client.Nodes() { // one address: the server, or the master that the sentinels name
		if host, port, err := net.SplitHostPort(addr); err == nil {
			cli += " -h " + storekit.ShellQuote(host) + " -p " + port
		} else {
			cli += " -s " + storekit.ShellQuote(addr)
		}
	}
	if err == nil && u.Scheme == "rediss" {
		cli += " --tls"
	}
	if err == nil && strings.HasPrefix(u.Scheme, "redis") && len(u.Path) > 1 {
		cli += " -n " + u.Path[1:]
	}
	return cli + " DEL " + storekit.ShellQuote(key)
}
