// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// State is the state of a server. Asking for it changes nothing.
type State struct {
	Run    string        // empty if the server is not guarded
	Closed time.Duration // the remaining quarantine
	Term                 // the server's MaxTTL
}

// State asks the server for its state.
func (s *Server) State(ctx context.Context) (State, error) {
	return s.StateOf(ctx, []string{s.epochKey})
}

// StateOf is State for the epoch whose record is at keys[0]. keys are the KEYS of epoch.lua.
func (s *Server) StateOf(ctx context.Context, keys []string) (State, error) {
	return s.state(ctx, keys, readAnswer)
}

// Learn is State, and also records the server's MaxTTL in this client's Limit.
func (s *Server) Learn(ctx context.Context) (State, error) {
	return s.state(ctx, []string{s.epochKey}, s.Told)
}

func (s *Server) state(ctx context.Context, keys []string, read func(rueidis.RedisResult) (Answer, error)) (State, error) {
	var stale *Binding
	for range 3 {
		b, err := s.Bound(ctx, stale)
		if err != nil {
			return State{}, conn.NotBound(ctx, err).Err
		}
		if b.boot == "" || len(s.Scripts) == 0 {
			return State{}, nil
		}
		is, err := read(s.Do(ctx, s.Tell(b, s.Client, keys, s.Args(Look, "", false))))
		if ret := conn.Refused(err); ret != nil && ret.IsNoScript() {
			stale = b
			continue
		}
		if err != nil {
			return State{}, conn.NotBound(ctx, err).Err
		}
		if is.Theirs != "" {
			return State{}, s.differs(is.Theirs)
		}
		return State{b.boot, is.Closed, is.Term}, nil
	}
	return State{}, conn.Unavailable(errors.New("the server forgets its scripts again and again"))
}

// Info describes the State for people.
func (s State) Info() *driver.StoreInfo {
	info := &driver.StoreInfo{MaxTTL: s.TTL, SetBy: s.Holder(), Closed: s.Closed}
	if s.Closed > 0 {
		info.Do = "if no lease from before is held any more, redislock.Bless (pawl bless) opens it at once"
		info.Why = "it has restarted, has lost its data or is another server, and may have forgotten leases"
	}
	return info
}
