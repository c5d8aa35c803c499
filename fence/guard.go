// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"sync"

	"github.com/pawl-go/pawl"
)

// Guard remembers the largest token that each resource has seen. *Memory and *Dir
// are guards. A guard is safe for concurrent use.
type Guard interface {
	// Do raises the resource's token to token and calls f, and no other Do for the
	// resource runs until f has returned: both writing and reading in f are safe. If
	// f is nil it only raises the token; a new holder that will read elsewhere does
	// that first.
	//
	// It returns what f returns. If f was not called it returns a *StaleError if the
	// resource has seen a larger token, the error of ctx if that ended while others
	// were at work, that of Check, or why the token could not be remembered.
	//
	// ctx is not given to f, which has to end by itself: until then a new holder
	// waits. f must not call Do for the same resource, as it would wait for itself.
	Do(ctx context.Context, resource string, token pawl.Token, f func() error) error
}

// Memory is a Guard in the memory of one process: for a resource that lives and
// dies with it. The zero value is ready for use. Each resource's name and token
// are kept for as long as the Memory is: forgotten, an old token would be let in.
type Memory struct{ gates gates }

// Do implements Guard.
func (m *Memory) Do(ctx context.Context, resource string, token pawl.Token, f func() error) error {
	if err := Check(resource, token); err != nil {
		return err
	}
	g, err := m.gates.enter(ctx, resource)
	if err != nil {
		return err
	}
	defer g.leave()
	if token < g.seen {
		return &StaleError{resource, token, g.seen}
	}
	g.seen = token
	if f == nil {
		return nil
	}
	return f()
}

// gates are the gates of the resources, each passed by one at a time.
type gates struct {
	mu sync.Mutex
	by map[string]*gate
}

type gate struct {
	busy chan struct{} // holds an element while somebody is inside
	seen pawl.Token    // whoever is inside may use it
}

// enter waits until it is the only one inside. A mutex would not do: the waiting
// ends with ctx.
func (s *gates) enter(ctx context.Context, resource string) (*gate, error) {
	s.mu.Lock()
	if s.by == nil {
		s.by = make(map[string]*gate)
	}
	g, ok := s.by[resource]
	if !ok {
		g = &gate{busy: make(chan struct{}, 1)}
		s.by[resource] = g
	}
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// While it waited the process may have been paused: a lease's context looks at
	// the clock.
	if err := ctx.Err(); err != nil {
		g.leave()
		return nil, err
	}
	return g, nil
}

func (g *gate) leave() { <-g.busy }
