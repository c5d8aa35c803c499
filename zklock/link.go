// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// link is one connection of a session to a server. It reads two facts that package zk does not report: the
// session's timeout, and whether the session is still the same one. It also limits how long package zk waits for a
// server, which can be seven session timeouts while it connects.
type link struct {
	net.Conn
	s *session

	asked    driver.Instant // when the request to connect was sent
	greeting bytes.Buffer   // the answer to that request, until package zk reads it
	ready    atomic.Bool    // the answer has come

	again   chan struct{} // closed when package zk has sent a request that sets its watches again
	watched sync.Once     // closes again
	waited  sync.Once     // calls awaitWatches
}

// opSetWatches is the type of the request that sets the watches again. The type is the third number of a packet.
const opSetWatches = 101

func (l *link) Write(b []byte) (int, error) {
	if l.asked == 0 {
		l.asked = driver.Now()
	} else if len(b) >= 12 && binary.BigEndian.Uint32(b[8:]) == opSetWatches {
		l.watched.Do(func() { close(l.again) })
	}
	return l.Conn.Write(b)
}

func (l *link) Read(b []byte) (int, error) {
	if !l.ready.Load() {
		if err := l.greet(); err != nil {
			return 0, err
		}
	}
	if l.greeting.Len() > 0 {
		return l.greeting.Read(b)
	}
	l.waited.Do(l.awaitWatches)
	return l.Conn.Read(b)
}

// greet reads the answer to the request to connect: its length, the protocol version, the session timeout in
// milliseconds, the id of the session, and more. The id is 0 if the session has expired.
func (l *link) greet() error {
	_, err := io.CopyN(&l.greeting, l.Conn, 4)
	if err == nil {
		_, err = io.CopyN(&l.greeting, l.Conn, int64(binary.BigEndian.Uint32(l.greeting.Bytes())))
	}
	if err != nil {
		l.unheard(err)
		return err
	}
	b := l.greeting.Bytes()
	if len(b) < 20 {
		return io.ErrUnexpectedEOF
	}
	l.ready.Store(true)
	timeout := time.Duration(binary.BigEndian.Uint32(b[8:])) * time.Millisecond
	err = l.s.connected(l, int64(binary.BigEndian.Uint64(b[12:])), timeout)
	if err != nil {
		l.Conn.Close()
	}
	return err
}

// watchesTime limits how long awaitWatches waits. It is more than package zk needs to set its watches again, even
// on a busy machine. With a password, package zk first waits for an answer, which awaitWatches holds back; so
// awaitWatches waits for only a tenth of the time.
const watchesTime = 500 * time.Millisecond

// awaitWatches holds back the answers on a new connection until package zk has sent the request that sets its
// watches again. That request names the last transaction that package zk has seen, which it reads without a lock.
// If an answer came in between, the request could name a later transaction. Then the server would not report the
// changes before that transaction, and the race detector would report a race.
func (l *link) awaitWatches() {
	l.s.mu.Lock()
	watches := len(l.s.watches)
	l.s.mu.Unlock()
	if watches == 0 {
		return
	}
	select {
	case <-l.again:
	case <-time.After(l.watchesTime()):
	}
}

func (l *link) watchesTime() time.Duration {
	if l.s.store.auth != nil {
		return watchesTime / 10
	}
	return watchesTime
}

func (l *link) SetReadDeadline(t time.Time) error {
	if !l.ready.Load() || !t.IsZero() {
		t = l.limit(t)
	}
	return l.Conn.SetReadDeadline(t)
}

func (l *link) SetWriteDeadline(t time.Time) error { return l.Conn.SetWriteDeadline(l.limit(t)) }

// limit returns t, or the time at which the session gives up a silent connection, whichever is earlier. A good
// connection brings answers more often than that.
func (l *link) limit(t time.Time) time.Time {
	if most := time.Now().Add(l.s.patience()); t.IsZero() || t.After(most) {
		return most
	}
	return t
}

// dial connects to one server.
func (s *session) dial(_, addr string, _ time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.store.ctx, max(s.patience(), time.Second))
	defer cancel()
	conn, err := s.store.dial(ctx, "tcp", addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.dialErr = err
		return nil, err
	case s.err != nil: // package zk would begin a new session
		conn.Close()
		return nil, errSession
	}
	s.link = &link{Conn: conn, s: s, again: make(chan struct{})}
	return s.link, nil
}

var errNewSession = errors.New("zklock: the server has begun another session")

// hostProvider is a zk.HostProvider. It leaves the look-up of hosts to dial, on each connection. The provider of
// package zk looks the hosts up only once, and with a single server it waits for a second before it connects
// again. Package zk calls it in one goroutine.
type hostProvider struct {
	addrs []string
	next  int
	tried int // attempts since a server has answered
}

// Init implements zk.HostProvider. Package zk has put the addresses into random order.
func (h *hostProvider) Init(addrs []string) error {
	h.addrs = addrs
	return nil
}

func (h *hostProvider) Len() int { return len(h.addrs) }

// Next implements zk.HostProvider. It returns wait after it has returned each server, and at least three
// addresses, without success. Package zk then fails the requests that it has not sent, and pauses for a second.
func (h *hostProvider) Next() (addr string, wait bool) {
	if h.tried == max(len(h.addrs), 3) {
		h.tried, wait = 0, true
	}
	h.tried++
	addr = h.addrs[h.next%len(h.addrs)]
	h.next++
	return addr, wait
}

// Connected implements zk.HostProvider. Package zk calls it when a server has answered.
func (h *hostProvider) Connected() { h.tried = 0 }
