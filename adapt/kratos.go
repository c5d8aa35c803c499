// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"sync"

	"github.com/pawl-go/pawl"
)

// KratosServer is a transport.Server of kratos v2, for kratos.Server. One instance of an app does the work. When
// it ends, another instance takes over.
//
//	kratos.New(kratos.Server(http, &adapt.KratosServer{Locks: locks, Name: "billing/outbox", Lead: relay}))
//
// The instance is a candidate while the app runs. If Lead returns an error, the app stops, as with any server. If
// Lead returns nil, the instance is no longer a candidate.
type KratosServer struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // the name of the election

	// Lead is the work. Its context ends when the lease is lost, and when the app stops; see Client.Elect.
	Lead func(ctx context.Context, lease *pawl.Lease) error

	Options []pawl.Option // for Elect

	mu      sync.Mutex
	stopped bool
	cancel  context.CancelFunc // nil before Start
	done    chan struct{}      // closed when Start has ended
}

// Start runs the election until Stop, and calls Lead when elected. It returns the errors of
// Client.Elect. Call it once.
func (s *KratosServer) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.cancel != nil {
		s.mu.Unlock()
		return errors.New("adapt: KratosServer.Start is called twice")
	}
	s.cancel, s.done = cancel, make(chan struct{})
	defer close(s.done)
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return nil
	}
	err := s.Locks.Elect(ctx, s.Name, s.Lead, s.Options...)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // Stop was called, or ctx has ended
	}
	return err
}

// Stop ends the context of Lead, and returns when the lease has been released, so that another instance leads
// at once. If ctx ends first, it returns the error of ctx.
func (s *KratosServer) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
