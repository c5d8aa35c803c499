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

// store is the wire to one cluster. It knows the etcd leases of its client's leases.
type store struct {
	driver.Basic
	client   *clientv3.Client
	where    string        // the addresses of the members, for error texts
	links    *links        // nil if the caller has made the client
	session  *session      // nil if the caller has made the client, or there is no user
	id       string        // identifies this client; part of the keys of its marks
	prefix   string        // begins all keys; with a Pattern, all except the keys of locks
	layout   layout        // of the keys of locks
	connect  time.Duration // ConnectTimeout
	backings pb.LeaseClient
	streams  chan struct{} // holds one element for each keepalive under way
	term     atomic.Uint64 // the raft term of the last answer to a read; see beat
	rev      atomic.Int64  // the greatest revision in an answer; see placed
	proofs   storekit.Batch[string, *proof]
	tell     func(driver.Event)

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines that Close waits for

	mu      sync.Mutex // guards the fields below
	hearing bool       // the listener runs; see listen
	spares  map[int64][]*backing
	idle    []*stream
	// The leases whose keys exist or may exist. The map's key is the etcd lease in the name of the lease's key.
	backed map[clientv3.LeaseID]*lease
}

// Caps implements driver.Store.
func (s *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{
			Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: true,
			Shared: !s.layout.mixed, Slots: !s.layout.mixed, // etcd's concurrency package has neither
		},
		Queue: true, Shows: true, Keeps: !s.layout.mixed, Adopts: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.tell = f }

// own records that l is about to put its key.
func (s *store) own(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backed[l.named] = l
}

// disown records that l has ended because of why.
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

// background runs f in a goroutine that Close waits for. It returns false if the store is closed.
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

// lostBy returns the *LostError in err, or nil.
func lostBy(err error) *driver.LostError {
	lost, _ := errors.AsType[*driver.LostError](err)
	return lost
}
