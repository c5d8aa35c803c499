// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// store is one participant.
type store struct {
	client  *clientv3.Client
	where   string        // the members, for people
	links   *links        // of our own client; nil if it is the caller's
	session *session      // of our own client, if it has a user
	id      string        // of this participant
	prefix  string        // of all keys but those of locks
	layout  layout        // of those
	connect time.Duration // to make a connection
	leases  pb.LeaseClient
	kv      pb.KVClient
	pulses  [pulses]pulse
	term    atomic.Uint64 // a raft term that an answer to a read has named; see beat
	rev     atomic.Int64  // the greatest revision that an answer has named; see placed
	proofs  proofs
	known   atomic.Pointer[known]
	limits  limits
	doubts  chan struct{} // there is something for reconcile

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the listener, and what it has started

	mu     sync.Mutex // guards the fields below
	ear    bool       // the listener runs
	spares map[int64][]*backing
	grants map[string]*grant // by mark
	ids    map[string]bool   // of leases of this participant that are there, or may be
	keys   map[string]bool   // that they have, or may have; see reconcile
	// Etcd leases that must not be used again.
	tainted map[clientv3.LeaseID]bool
	// Names for which somebody was in the way last; see isContended.
	contended map[string]bool
}

var (
	_ driver.Queuer    = (*store)(nil)
	_ driver.Inspector = (*store)(nil)
	_ driver.Recaller  = (*store)(nil)
)

// Guarantees implements driver.Driver.
func (s *store) Guarantees() driver.Guarantees {
	return driver.Guarantees{
		Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: true,
		Shared: !s.layout.mixed, Slots: !s.layout.mixed, // the other library knows neither
	}
}

// TryAcquire implements driver.Driver. It does not overtake those who wait.
func (s *store) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if !s.first(req.Lease) {
		q, err := s.queue(ctx, req.Name)
		if err != nil {
			return nil, err
		}
		return nil, &driver.HeldError{Info: q.info(req.Name)}
	}
	return s.only(req.Lease)(s.tryAcquire(ctx, req))
}

// first reports whether an attempt is no repetition of one that is there, or may be:
// there must not be two. Nobody else makes it, so it is enough to know it here.
func (s *store) first(lease string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.ids[lease]
	s.ids[lease] = true
	return !known
}

// only passes on how an attempt has ended. If nothing is there it can be repeated.
func (s *store) only(lease string) func(driver.Grant, error) (driver.Grant, error) {
	return func(g driver.Grant, err error) (driver.Grant, error) {
		if g == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.ids, lease)
		}
		return g, err
	}
}

func (s *store) tryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	for {
		a, fail := s.attempt(ctx, req)
		if fail != nil {
			return nil, fail.err
		}
		g, fail := a.try(ctx)
		switch {
		case fail == nil:
			return g, nil
		case !fail.gone || a.known:
			s.askBack(ctx, fail.kept)
			return a.undo(fail)
		}
		// The spare had gone. The next one, or a new one.
		s.disown(a.key)
	}
}

// usable returns why a request must not even be begun.
func (s *store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	return nil
}

// Close implements driver.Driver.
func (s *store) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.mu.Lock()
	s.cancel()
	spares := s.spares
	s.mu.Unlock()
	s.giveBack(spares)
	var err error
	if s.links != nil && s.client != nil {
		err = s.client.Close()
	}
	s.work.Wait()
	return err
}
