// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/cluster"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// claimTTL is the TTL of a lease that a hand-off gives to a waiter. The waiter has to renew the lease in that time.
const claimTTL = time.Second

var claimMillis = epoch.Millis(claimTTL)

// lookEvery is how often a waiter asks again if it gets no message. So a lock stays free for 3 s at
// most while some waiter reaches the server. The worst case begins with the death of a holder: one
// look (after 2 s) hands the lock to the first waiter, which is paused; claimTTL (1 s) later another
// look passes it over.
const lookEvery = 2 * time.Second

// store implements driver.Store on one server, or on one cluster.
type store struct {
	server    *cluster.Cluster
	id        string // of this client; the last part of its channel
	prefix    string // of all keys; with a pattern, of all but the locks
	layout    *keys.Layout
	limit     *epoch.Limit
	mode      Mode
	assumeNew bool // see Options
	prompt    bool // a hand-off message suffices to use the lock; false with WaitReplicas
	bounded   bool // this package makes the connections, and gives them up when they are silent
	records   storekit.Records
	events    storekit.Outbox[driver.Event]
}

// Caps implements driver.Store.
//
// SurvivesRestart is false: a server without persistence forgets leases, and their
// holders lose them. (But a restart never gives a name to a second holder.)
func (s *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, FIFO: true, CrossHost: true, Expiry: true, Shared: true, Slots: true},
		Queue:      true, Look: lookEvery, Shows: true, Keeps: true, Adopts: true, Downgrades: true, LongerTTL: true,
		Bounded: s.bounded,
	}
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.events.To(f) }

// Hear implements driver.Store.
func (s *store) Hear(name string) (ready <-chan struct{}, stop func()) {
	key := s.layout.Lock(name)
	return s.server.Subscription(key).Ready(), func() { s.server.Leave(key) }
}

// check returns an error if a request for a lease is invalid.
func (s *store) check(req *driver.Request) *driver.Failure {
	err := s.checkName(req.Name)
	if err == nil {
		err = s.checkTTL(req.TTL)
	}
	if req.Lease == "" || strings.ContainsAny(req.Lease, " \n") {
		err = fmt.Errorf("redislock: lease id %q: use letters and digits", driver.Shorten(req.Lease))
	}
	if err != nil {
		return &driver.Failure{Err: err, Lasting: true}
	}
	return nil
}

func (s *store) checkName(name string) error {
	if err := s.layout.Check(name); err != nil {
		return fmt.Errorf("redislock: %w", err)
	}
	return nil
}

func (s *store) checkTTL(ttl time.Duration) error {
	if err := s.limit.Check(ttl); err != nil {
		return fmt.Errorf("redislock: %w", err)
	}
	return nil
}

// keysOf returns the keys of the scripts that begin and end a lease: epoch, floor, ended, lock,
// queue. It makes one string for ended and queue, to save an allocation.
func (s *store) keysOf(key, lease string) [5]string {
	by := s.layout.Beside(key)
	all := by + queueSuffix + by + endedSuffix + lease
	queue := len(by) + len(queueSuffix)
	return [...]string{s.server.EpochKey(key), s.server.FloorKey(key), all[queue:], key, all[:queue]}
}

// missed reports that messages about the locks of one server may be lost. Waiters then look, and holders renew.
func (s *store) missed(at *conn.Conn) {
	s.events.Put(driver.Event{Kind: driver.Missed, Concerns: func(name string) bool { return s.server.Has(at, s.layout.Lock(name)) }})
}

// heard does the same when a subscription to one slot of a cluster opens, for the locks of that slot. While it was closed,
// the server may have removed this client's waiters from queues.
func (s *store) heard(sub *conn.Subscription) {
	s.events.Put(driver.Event{Kind: driver.Missed, Concerns: func(name string) bool { return s.server.Hears(sub, s.layout.Lock(name)) }})
}

func (s *store) told(news driver.News) { s.events.Put(driver.Event{Kind: driver.Told, News: news}) }

// Close implements driver.Store.
func (s *store) Close() error {
	s.server.Hush()
	s.server.Close()
	return nil
}

// readError returns the error of a request that only reads.
func readError(ctx context.Context, err error) error { return conn.NotBound(ctx, err).Err }
