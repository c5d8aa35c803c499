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

// session is one session with the servers. All leases with one TTL belong to one.
//
// What package zk says about the state of a session is no evidence: a server that
// has lost the others goes on answering, and knows nothing of the end of sessions.
// Trust rests on requests that a quorum has carried out for the session; see
// confirm for how long.
type session struct {
	purpose
	store *store
	conn  *zk.Conn
	ready chan struct{} // closed when it can be used, and refused is set
	dead  chan struct{} // closed when it has ended, with err

	refused error // why there can be no leases in it

	mu       sync.Mutex // guards the fields below
	id       int64
	timeout  time.Duration // as the servers grant it
	away     chan struct{} // closed when the attempt that is under way to reach a server has failed
	err      error         // why it has ended
	dialErr  error         // why the last attempt to connect has failed
	link     *link
	counted  driver.Instant   // the leader counts the timeout from then, or later; of this link
	touches  []touch          // that the leader may not have heard of; of this link, in order
	last     driver.Instant   // when the last one was sent that a quorum has carried out, over this link; or 0
	touching int              // how many requests of touchOnce are under way
	touched  driver.Instant   // when keep has sent the last one
	news     chan struct{}    // closed when what is above has changed; nil if nobody waits for that
	trip     time.Duration    // how long the last answer took
	answered driver.Instant   // when somebody has heard of the servers last
	nodes    map[string]*node // of leases, by their keys
	watches  map[string]*watch
	doubts   map[string]driver.Instant // keys of which a request to make the node had no answer, and when
	going    map[string]bool           // nodes of old requests that a deletion has been sent for, by their paths
}

var (
	errEnded   = errors.New("the session with the servers has ended")
	errSession = fmt.Errorf("%w: %w", driver.ErrUncertain, errEnded)
	errClosed  = fmt.Errorf("zklock: %w", driver.ErrClosed)
)

// newSession begins a session. It is ready later.
func (s *store) newSession(p purpose) (*session, error) {
	n := &session{
		store: s, purpose: p, ready: make(chan struct{}), away: make(chan struct{}), dead: make(chan struct{}),
		timeout: s.timeoutFor(p), answered: driver.Now(),
		nodes: make(map[string]*node), watches: make(map[string]*watch),
		doubts: make(map[string]driver.Instant), going: make(map[string]bool),
	}
	made := make(chan struct{}) // package zk connects before it returns
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
	s.work.Add(1) // for end, which may come beside Wait
	s.work.Go(n.begin)
	return n, nil
}

// silent is a log that says nothing: errors are returned.
type silent struct{}

func (silent) Printf(string, ...any) {}

// begin makes the session ready, and keeps it.
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
	if most := s.longestTTL(); most < s.ttl {
		s.refused = fmt.Errorf("zklock: TTL %v is too long for these servers, whose sessions last %v (%s): use at most %v, or raise their maxSessionTimeout: %w",
			s.ttl, s.granted(), s.store.ticks(), most.Truncate(time.Millisecond), errors.ErrUnsupported)
	}
	close(s.ready)
	s.keep()
}

// failing returns a channel that is closed when the attempt to reach a server that is under way
// has failed. Callers that try again at once wait for the next one, and so go at its pace.
func (s *session) failing() <-chan struct{} { return get(s, &s.away) }

// login says who we are, or only asks something.
func (s *session) login() error {
	if s.store.auth != nil {
		return s.conn.AddAuth("digest", s.store.auth)
	}
	_, _, err := s.conn.Exists("/")
	return err
}

// keep has a quorum confirm the session again and again, so that what is asked for a
// lease can be trusted at once; see confirm. A session that has not been answered for
// long is given up: package zk would go on for ever with servers that have lost their
// data and refuse whoever has seen more than they know.
//
// The next request does not wait for the answer to the last: on a slow link two windows
// would get too long.
func (s *session) keep() {
	for s.sleep(s.store.ctx, s.due()) {
		if s.due() > 0 {
			continue // renewals, and nodes that were made, have been confirmed meanwhile
		}
		s.mu.Lock()
		s.touched = driver.Now()
		s.touchSoon(maxTouching)
		s.mu.Unlock()
	}
}

// maxTouching is how many requests of keep are under way at a time.
const maxTouching = 16

// touchSoon has a quorum confirm the session, unless most requests for that are under way. s.mu is held.
func (s *session) touchSoon(most int) {
	if s.touching < most {
		s.touching++
		s.store.work.Go(s.touchOnce)
	}
}

func (s *session) touchOnce() {
	_, err := s.touch(0, true)
	if err != nil && !errors.Is(err, errYoung) {
		s.sleep(s.store.ctx, retryPause)
	}
	s.mu.Lock()
	s.touching--
	s.wake()
	s.mu.Unlock()
	if errors.Is(err, zk.ErrSessionExpired) || err != nil && s.silentFor() > 3*s.granted() {
		s.end(errSession)
	}
}

// due returns after how long a quorum is to be asked again.
func (s *session) due() time.Duration {
	pace := s.pace()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.touched
	if n := len(s.touches); n > 0 {
		last = max(last, s.touches[n-1].sent)
	}
	return max(last, s.counted).Add(pace).Sub(driver.Now())
}

// sleep returns false if the session or ctx ends before d has passed.
func (s *session) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.dead:
	case <-ctx.Done():
	}
	return false
}

// use makes l the connection of the session, unless that has ended.
func (s *session) use(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.link = l
	return true
}

// connected notes how a server has answered the request to connect. It returns an
// error if the session has ended.
//
// No server answers without having asked the leader, which begins to count the
// timeout anew when it is asked. Whether that leads anybody still, what a quorum carries
// out over the same connection will show: a server that loses its leader closes its connections.
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

// missed tells those who wait that something may have happened before this connection began, and looks for
// what old requests have left. s.mu is held.
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

// end ends the session here, and on the servers if they can be reached.
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

func (s *session) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

// get returns a field that the session's lock guards.
func get[T any](s *session, field *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}

func (s *session) why() error { return get(s, &s.err) }

func (s *session) granted() time.Duration { return get(s, &s.timeout) }

func (s *session) sessionID() int64 { return get(s, &s.id) }

func (s *session) lastAnswer() driver.Instant { return get(s, &s.answered) }

// trouble notes why a server could not be reached.
func (s *session) trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialErr = err
}
