// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// State is how a server is. To ask for it changes nothing.
type State struct {
	Run    string        // empty if it is not guarded
	Closed time.Duration // for so long it grants nothing
	Sets                 // of a node of Redlock
	Term                 // its MaxTTL
}

// State asks the server how it is.
func (s *Server) State(ctx context.Context) (State, error) {
	return s.stateOf(ctx, []string{s.EpochKey("")})
}

func (s *Server) stateOf(ctx context.Context, keys []string) (State, error) {
	var stale *binding
	for range 3 {
		b, err := s.bound(ctx, stale)
		if err != nil {
			return State{}, NotBound(ctx, err).Err
		}
		if b.boot == "" || len(s.Scripts) == 0 {
			return State{}, nil
		}
		is, err := epochReply(s.Do(ctx, b.call(s.client, s.epochScript(), keys, s.Limit.args(look, ""))))
		if ret, ok := rueidis.IsRedisErr(err); ok && ret.IsNoScript() {
			stale = b
			continue
		}
		if err != nil {
			return State{}, NotBound(ctx, err).Err
		}
		s.Limit.learn(is)
		if s.Group != nil {
			s.Group.learn(s.Node, is.sets)
		}
		return State{b.boot, is.closed, is.sets, is.Term}, nil
	}
	return State{}, Unavailable(errors.New("the server forgets its scripts again and again"))
}

const samples = 16 // slots of each master that State looks at

// State asks all masters how some of their slots are, and returns the longest of what
// they say: their epochs begin together.
func (c *Cluster) State(ctx context.Context) (State, error) {
	servers, err := c.Servers(ctx)
	if err != nil {
		return State{}, NotBound(ctx, err).Err
	}
	var all State
	var failed error
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, s := range servers {
		slots := c.slotsOf(s, 0)
		for i := range min(samples, len(slots)) {
			key := c.epochKey(slots[i*len(slots)/samples%len(slots)])
			work.Go(func() {
				is, err := s.stateOf(ctx, []string{key, noKey(key)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
					return
				}
				all.Run, all.Closed = is.Run, max(all.Closed, is.Closed)
				if is.TTL != 0 && all.Term.before(is.Term) {
					all.Term = is.Term
				}
			})
		}
	}
	work.Wait()
	return all, failed
}

// Info is the State for people.
func (s State) Info() *driver.StoreInfo {
	info := &driver.StoreInfo{MaxTTL: s.TTL, SetBy: s.Holder(), Closed: s.Closed}
	if s.Closed > 0 {
		info.Why = "it has restarted, has lost its data or is another server, and may have forgotten leases"
	}
	return info
}
