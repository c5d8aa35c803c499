// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// maxSessions limits how many TTLs one client can use.
const maxSessions = 8

// store is the wire of one client.
type store struct {
	driver.Basic
	tell func(driver.Event)

	addrs    []string
	shown    string // the URL without the password, for error texts
	root     string // the parent of the names' nodes
	tls      bool
	dial     dialFunc
	auth     []byte // user:password, or nil
	acl      []zk.ACL
	ttl      time.Duration // of the session that Inspect, List and Break use
	tick     time.Duration
	tickFrom string        // where tick comes from, for error texts
	timeout  time.Duration // ConnectTimeout

	seen atomic.Int64 // the latest transaction that a list of nodes has shown; see checkOrder

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	closed   bool
	sessions map[purpose]*session
}

// Caps implements driver.Store. A restart of the servers keeps everything that they have acknowledged. After it
// they count the timeouts of all sessions from the beginning.
func (s *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{
			Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: true,
			Shared: true, Slots: true,
		},
		Queue: true, Look: lookEvery, Shows: true,
	}
}

// lookEvery is how often a waiter asks again without an event. An event may fail to come: package zk does not
// report when it fails to set its watches on a new connection, and no watch reports a change of rights.
const lookEvery = 5 * time.Second

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.tell = f }

// dir returns the node of a name.
func (s *store) dir(name string) string { return path.Join(s.root, encodeName(name)) }

// session waits until the session for a purpose can be used, and returns it. If the session cannot begin, session
// returns ErrUnavailable.
func (s *store) session(ctx context.Context, p purpose) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n, err := s.sessionFor(p)
	if err != nil {
		return nil, err
	}
	select {
	case <-n.ready:
		return n, nil
	default:
	}
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case <-n.ready:
		return n, nil
	case <-n.dead:
		return nil, unavailable(explain(n.why()))
	case <-get(n, &n.away):
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, unavailable(n.unreached())
}

// leases returns the session for a request for a lease, as session does. It returns an error if the servers do not
// grant sessions that are long enough for the TTL.
func (s *store) leases(ctx context.Context, p purpose) (*session, error) {
	n, err := s.session(ctx, p)
	if err != nil {
		return nil, err
	}
	if most := n.longestTTL(); most < p.ttl {
		return nil, fmt.Errorf("zklock: TTL %v is too long for these servers, whose sessions last %v (%s): use at most %v, or raise their maxSessionTimeout: %w",
			p.ttl, n.granted(), s.ticks(), most.Truncate(time.Millisecond), errors.ErrUnsupported)
	}
	return n, nil
}

// sessionFor returns the session for a purpose, which may not be ready yet.
func (s *store) sessionFor(p purpose) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, unavailable(errClosed)
	}
	if n := s.sessions[p]; n != nil {
		return n, nil
	}
	if len(s.sessions) == maxSessions {
		return nil, fmt.Errorf("zklock: TTL %v: a client needs a session for each TTL, and has at most %d: use fewer different TTLs: %w",
			p.ttl, maxSessions, errors.ErrUnsupported)
	}
	n, err := s.newSession(p)
	if err != nil {
		return nil, unavailable(err)
	}
	s.sessions[p] = n
	return n, nil
}

// forget removes a session that has ended.
func (s *store) forget(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[n.purpose] == n {
		delete(s.sessions, n.purpose)
	}
}

// unreached returns the reason why the session has not begun.
func (s *session) unreached() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialErr != nil {
		return dialHint(s.dialErr)
	}
	return errNoAnswer
}

// Close implements driver.Store. If a session cannot be closed, the servers end it after its timeout.
func (s *store) Close() error {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	for _, n := range all {
		n.end(errClosed)
	}
	s.cancel()
	s.work.Wait()
	return nil
}
