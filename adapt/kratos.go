// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"sync"

	"github.com/pawl-go/pawl"
)

// KratosServer is a transport.Server of kratos v2, for kratos.Server: of all instances of an
// app one does the work, and another one when that has gone.
//
//	kratos.New(kratos.Server(http, &adapt.KratosServer{Locks: locks, Name: "billing/outbox", Lead: relay}))
//
// It stands for election while the app runs. An error that Lead returns stops the app, as
// that of any server; nil ends the standing for election of this instance.
type KratosServer struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // of the election

	// Lead is the work. Its context ends when the lease is lost and when the app stops; see
	// Client.Elect.
	Lead func(ctx context.Context, lease *pawl.Lease) error

	Options []pawl.Option // of Elect

	mu      sync.Mutex
	stopped bool
	cancel  context.CancelFunc // nil before Start
	done    chan struct{}      // closed when Start has ended
}

// Start stands for election until Stop, and leads while it is elected. The errors are those of
// Client.Elect. It is called once.
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
		return nil // as it was told
	}
	return err
}

// Stop has Lead end and the lease given back, so that another instance leads at once. It waits
// for that until ctx ends, which is its error then.
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
