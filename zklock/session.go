// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// session is one ZooKeeper session, for all leases with one TTL.
//
// A server that has lost the other servers still answers, and does not know that a session has ended. So the
// session does not trust the state that package zk reports. It trusts requests that a quorum has carried out; see
// confirm.
type session struct {
	purpose
	store *store
	conn  *zk.Conn
	ready chan struct{} // closed when the session can be used
	dead  chan struct{} // closed when the session has ended; err is set before

	mu       sync.Mutex // guards the fields below
	id       int64
	timeout  time.Duration // as the servers have granted it; before, the one to ask for
	away     chan struct{} // closed when the attempt to reach a server has failed; then replaced for the next attempt
	err      error         // why the session has ended; nil before
	dialErr  error         // why the last connection attempt has failed
	link     *link
	counted  driver.Instant   // the leader counts the timeout from this instant or a later one; of this link
	touches  []touch          // recent touches over this link, in order; see before
	last     driver.Instant   // when the last confirmed touch was sent over this link; or 0
	touching int              // calls of touchOnce under way
	touched  driver.Instant   // when keep has sent its last touch
	news     chan struct{}    // closed when renewals should look again; nil if none waits
	trip     time.Duration    // the last round trip
	answered driver.Instant   // when a server has answered last
	nodes    map[string]*node // the leases' nodes, by their keys
	watches  map[string]*watch
	doubts   map[string]driver.Instant // when each lease in doubt became so, by the leases' keys; see doubt.go
	going    map[string]bool           // paths of the nodes that sweep deletes
}

var (
	errEnded   = errors.New("the session with the servers has ended")
	errSession = fmt.Errorf("%w: %w", driver.ErrUncertain, errEnded)
	errClosed  = fmt.Errorf("zklock: %w", driver.ErrClosed)
)

// newSession begins a session. It closes ready when the session can be used.
func (s *store) newSession(p purpose) (*session, error) {
	n := &session{
		store: s, purpose: p, ready: make(chan struct{}), away: make(chan struct{}), dead: make(chan struct{}),
		timeout: s.timeoutFor(p), answered: driver.Now(),
		nodes: make(map[string]*node), watches: make(map[string]*watch),
		doubts: make(map[string]driver.Instant), going: make(map[string]bool),
	}
	made := make(chan struct{}) // zk.Connect may dial before n.conn is set
	dial := func(network, addr string, d time.Duration) (net.Conn, error) {
		<-made
		return n.dial(network, addr, d)
	}
	conn, _, err := zk.Connect(s.addrs, n.timeout, zk.WithDialer(dial), zk.WithHostProvider(new(hostProvider)),
		zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithEventCallback(n.event), zk.WithMaxConnBufferSize(512<<10))
	if err != nil {
		return nil, err
	}
	n.conn = conn
	close(made)
	s.work.Add(1) // for end, which may be called during Wait
	s.work.Go(n.begin)
	return n, nil
}

// silent is a zk.Logger that discards all lines. Package zk also returns the errors that it logs.
type silent struct{}

func (silent) Printf(string, ...any) {}

// begin logs in until that succeeds, closes ready, and then keeps the session.
func (s *session) begin() {
	for {
		err := s.login()
		if err == nil {
			break
		}
		if lasting(err) {
			s.end(err)
		}
		if errors.Is(err, zk.ErrNoServer) {
			s.mu.Lock()
			close(s.away)
			s.away = make(chan struct{})
			s.mu.Unlock()
		}
		if !s.sleep(s.store.ctx, retryPause) {
			return
		}
	}
	close(s.ready)
	s.keep()
}

// login sends the user and the password. Without a user, it asks whether "/" exists, which succeeds once there is
// a session.
func (s *session) login() error {
	if s.store.auth != nil {
		return s.conn.AddAuth("digest", s.store.auth)
	}
	_, _, err := s.conn.Exists("/")
	return err
}

// sleep waits for d. It returns false if the session or ctx ends first.
func (s *session) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.dead:
	case <-ctx.Done():
	}
	return false
}

// connected records a server's answer to the request to connect. It returns an error if the session has ended.
//
// Before the server answers, it asks the leader, and the leader counts the timeout anew. That leader may have lost
// its quorum already. A later request that a quorum carries out over the same connection proves that it had not: a
// server closes its connections when it loses its leader.
func (s *session) connected(l *link, id int64, timeout time.Duration) error {
	s.mu.Lock()
	known := s.id
	if id != 0 && (known == 0 || known == id) && s.err == nil {
		s.id, s.timeout = id, timeout
		if s.link == l {
			s.counted, s.touches, s.last = l.asked, nil, 0
		}
		s.answered = driver.Now()
		s.dialErr = nil
		s.wake()
		if known != 0 {
			s.missed()
		}
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	s.end(errSession)
	return errNewSession
}

// missed tells the waiters that events may have been lost before this connection, and begins a sweep. s.mu is
// held.
func (s *session) missed() {
	waits := make(map[string]bool)
	for _, n := range s.nodes {
		if n.line != nil {
			waits[n.ref.Name] = true
		}
	}
	if len(waits) > 0 {
		s.store.tell(driver.Event{Kind: driver.Missed, Concerns: func(name string) bool { return waits[name] }})
	}
	if len(s.doubts) > 0 {
		s.store.work.Go(s.sweep)
	}
}

// end ends the session, and closes it at the servers if one can be reached.
func (s *session) end(why error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = why
	if s.dialErr != nil && !lasting(why) {
		s.err = fmt.Errorf("%w: %w", why, s.dialErr)
	}
	close(s.dead)
	for _, n := range s.nodes {
		n.lose(&driver.LostError{Reason: driver.Expired, Err: errEnded})
	}
	s.mu.Unlock()
	s.store.forget(s)
	go func() {
		defer s.store.work.Done()
		s.conn.Close()
	}()
}

// get returns a field that s.mu guards.
func get[T any](s *session, field *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}

func (s *session) why() error { return get(s, &s.err) }

func (s *session) granted() time.Duration { return get(s, &s.timeout) }

func (s *session) sessionID() int64 { return get(s, &s.id) }

func (s *session) isDead() bool { return s.why() != nil }
