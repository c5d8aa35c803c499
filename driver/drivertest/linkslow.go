// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// delay writes to a connection what it is given, later. Without a delay it writes at once.
type delay struct {
	to    net.Conn
	late  time.Duration
	queue chan packet
	done  chan struct{}
	work  sync.WaitGroup
}

type packet struct {
	due  time.Time
	data []byte
}

func newDelay(to net.Conn, late time.Duration) *delay {
	d := &delay{to: to, late: late, queue: make(chan packet, 1024), done: make(chan struct{})}
	if late > 0 {
		d.work.Go(d.run)
	}
	return d
}

func (d *delay) run() {
	for {
		select {
		case p := <-d.queue:
			time.Sleep(time.Until(p.due))
			if _, err := d.to.Write(p.data); err != nil {
				d.to.Close()
			}
		case <-d.done:
			return
		}
	}
}

func (d *delay) Write(b []byte) (int, error) {
	if d.late == 0 {
		return d.to.Write(b)
	}
	select {
	case d.queue <- packet{time.Now().Add(d.late), slices.Clone(b)}:
		return len(b), nil
	case <-d.done:
		return 0, net.ErrClosed
	}
}

// end drops what has not been written.
func (d *delay) end() {
	close(d.done)
	d.work.Wait()
}

// SlowTo returns a new link to the server at target over which a round trip takes trip longer.
func SlowTo(t testing.TB, target string, trip time.Duration) *Link {
	l := NewLink(t, target)
	l.Slow((trip + 1) / 2)
	return l
}

// SlowLink checks that a lease lives on a link to the server at addr over which a round trip
// takes as long as given, and that the next client gets the name when it is released. Open
// returns a client for leases of ttl whose connections go to the address given.
func SlowLink(t *testing.T, addr string, ttl, trip time.Duration, open func(addr string) (*pawl.Client, error)) {
	t.Helper()
	slow, err := open(SlowTo(t, addr, trip).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	l, err := slow.Acquire(t.Context(), "slow")
	if err != nil {
		t.Fatalf("Acquire with round trips of %v: %v", trip, err)
	}
	select {
	case <-l.Done():
		t.Fatalf("with round trips of %v and a TTL of %v: %v", trip, ttl, l.Err())
	case <-time.After(3 * ttl):
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := open(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	l, err = next.TryAcquire(t.Context(), "slow")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
