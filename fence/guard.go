// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"sync"

	"github.com/pawl-go/pawl"
)

// Guard remembers the largest token that each resource has seen. *Memory and *Dir are guards. A Guard is safe for
// concurrent use.
type Guard interface {
	// Do raises the resource's token to token and calls f. No other Do for the resource runs until f has returned,
	// so f may read and write. If f is nil, Do only raises the token. A new holder does that before it reads
	// elsewhere.
	//
	// Do returns the result of f. If it did not call f, it returns a *StaleError if the resource has seen a larger
	// token, the error of ctx if ctx ended first, the error of Check, or an error that says why the token could
	// not be stored.
	//
	// The end of ctx does not end f: a new holder waits until f returns. f must not call Do for the same resource,
	// because that call would wait for f.
	Do(ctx context.Context, resource string, token pawl.Token, f func() error) error
}

// Memory is a Guard in the memory of one process, for a resource in the same memory. The zero value is ready to
// use. A Memory keeps the name and token of each resource for ever, because a forgotten resource would accept an
// old token.
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

// gates lets one caller at a time use a resource.
type gates struct {
	mu sync.Mutex
	by map[string]*gate
}

type gate struct {
	busy chan struct{} // full while a caller is inside
	seen pawl.Token    // guarded by busy
}

// enter waits until no other caller is inside, or until ctx ends. A mutex cannot wait for ctx.
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
	// The process may have been paused in the meantime. The context of a lease checks the clock.
	if err := ctx.Err(); err != nil {
		g.leave()
		return nil, err
	}
	return g, nil
}

func (g *gate) leave() { <-g.busy }
