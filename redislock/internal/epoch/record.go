// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// The modes of epoch.lua.
const (
	Look    = "look"  // changes nothing
	Join    = "join"  // begins or joins the epoch
	Trust   = "bless" // ends the quarantine
	Setting = "set"   // joins, and changes MaxTTL
)

// Wrote reports whether this participant has asked for a grant. Before that it only looks
// at records, and changes none.
func (s *Server) Wrote() bool { return s.writes.Load() }

// Mode returns Join if the participant has asked for a grant, else Look.
func (s *Server) Mode() string {
	if s.Wrote() {
		return Join
	}
	return Look
}

// Args returns the arguments of epoch.lua. With tell the script notifies all participants if it makes a record where there
// was none. ago is how long ago this participant last heard from the run before; it is empty if there was none.
func (s *Server) Args(mode, ago string, tell bool) []string {
	args := s.Limit.args(mode, ago)
	if tell {
		args[8], args[9] = s.newsChannel(), s.ID
	}
	return args
}

// Tell builds a call of epoch.lua.
func (s *Server) Tell(b *Binding, c rueidis.CommandClient, keys, args []string) rueidis.Completed {
	return b.Call(c, s.epochScript(), keys, args)
}

// Told reads the reply of epoch.lua, and learns from it.
func (s *Server) Told(r rueidis.RedisResult) (Answer, error) {
	is, err := readAnswer(r)
	if err == nil {
		s.Limit.learn(is)
		if s.Slots != nil && is.Theirs != "" {
			s.Limit.theirs.Store(&is.Theirs)
		}
	}
	return is, err
}

// tell calls epoch.lua at a server that belongs to no cluster.
func (s *Server) tell(ctx context.Context, b *Binding, args []string) (Answer, error) {
	return s.Told(s.Do(ctx, s.Tell(b, s.Client, []string{s.epochKey}, args)))
}

// join builds the call that looks at, begins or joins the epoch of this run of the server.
// away is when this participant last heard from the run before, or 0 if there was none.
func (s *Server) join(wire rueidis.CommandClient, b *Binding, mode string, away driver.Instant) rueidis.Completed {
	ago := ""
	if away != 0 {
		ago = Millis(max(0, driver.Now().Sub(away)))
	}
	return s.Tell(b, wire, []string{s.epochKey}, s.Args(mode, ago, true))
}

// joined reads the answer to join, and returns the remaining quarantine: until MaxTTL has passed
// since the server may have forgotten a lease. Renewals go on.
func (s *Server) joined(b *Binding, mode string, r rueidis.RedisResult) (closed time.Duration, err error) {
	is, err := s.Told(r)
	if err != nil {
		return 0, err
	}
	b.used = is.Found != Missing
	if b.theirs = is.Theirs; b.theirs != "" {
		return 0, nil
	}
	b.limit = is.TTL
	if mode != Look {
		s.arrived()
	}
	return is.Closed, nil
}

// Values of Answer.Found.
const (
	Joined  = iota // the epoch of this run
	Foreign        // an epoch that does not hold for this run, or a record of clients with another Pattern
	Missing        // no record
)

// Answer is the reply of epoch.lua.
type Answer struct {
	Closed time.Duration // the remaining quarantine
	Found  int64         // what the script has found: Joined, Foreign or Missing
	Theirs string        // the layout of a record of clients with another Pattern; if set, the other fields mean nothing
	rest   time.Duration // for how long leases that are longer than MaxTTL may still last
	Term
}

func readAnswer(r rueidis.RedisResult) (Answer, error) {
	reply, err := r.ToArray()
	if err != nil {
		return Answer{}, err
	}
	if len(reply) != 7 {
		return Answer{}, conn.WrongLength(len(reply), 7)
	}
	var s Answer
	ms, _ := reply[0].AsInt64()
	ttl, _ := reply[1].AsInt64()
	s.Closed, s.TTL = time.Duration(ms)*time.Millisecond, time.Duration(ttl)*time.Millisecond
	s.Found, _ = reply[2].AsInt64()
	s.Change, _ = reply[3].AsInt64()
	s.By, _ = reply[4].ToString()
	rest, _ := reply[5].AsInt64()
	s.rest = time.Duration(rest) * time.Millisecond
	s.Theirs, err = reply[6].ToString()
	return s, err
}

// Change calls epoch.lua with the mode Trust or Setting.
func (s *Server) Change(ctx context.Context, mode string) error {
	b, err := s.Bound(ctx, nil)
	if err == nil && b.boot != "" {
		var is Answer
		if is, err = s.tell(ctx, b, s.Args(mode, "", true)); is.Theirs != "" {
			return s.differs(is.Theirs)
		}
	}
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	return nil
}
