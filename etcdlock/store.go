// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// store is the wire to one cluster. Of the leases of its client it knows the etcd leases.
type store struct {
	driver.Basic
	client   *clientv3.Client
	where    string        // the members, for people
	links    *links        // nil if the client is the caller's
	session  *session      // nil if the client is the caller's, or has no user
	id       string        // of this participant
	prefix   string        // of all keys except the keys of locks
	layout   layout        // of the keys of locks
	connect  time.Duration // to make a connection
	backings pb.LeaseClient
	streams  chan struct{} // has one element for each keepalive under way
	term     atomic.Uint64 // a raft term that an answer to a read has named; see beat
	rev      atomic.Int64  // the greatest revision that an answer has named; see placed
	proofs   storekit.Batch[string, *proof]
	tell     func(driver.Event)

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // of background

	mu     sync.Mutex // guards the fields below
	ear    bool       // the listener runs
	spares map[int64][]*backing
	idle   []*stream
	// The leases that are recorded, or may be, by the etcd leases that their keys are named after.
	backed map[clientv3.LeaseID]*lease
}

// Caps implements driver.Store.
func (s *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{
			Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: true,
			Shared: !s.layout.mixed, Slots: !s.layout.mixed, // the other library knows neither
		},
		Queue: true, Shows: true, Keeps: !s.layout.mixed, Adopts: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.tell = f }

// own notes that l is about to make its key.
func (s *store) own(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backed[l.named] = l
}

// disown notes that l has ended, because of why.
func (s *store) disown(l *lease, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.ended == nil {
		l.ended = why
	}
	l.sight.close()
	if s.backed[l.named] == l {
		delete(s.backed, l.named)
	}
}

// background runs f in a goroutine that Close waits for, unless the store is closed.
func (s *store) background(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Go(f)
	return true
}

// Close implements driver.Store.
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

// lostBy returns err as a *LostError, or nil if it is none.
func lostBy(err error) *driver.LostError {
	var lost *driver.LostError
	errors.As(err, &lost)
	return lost
}
