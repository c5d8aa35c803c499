// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// Fault is what a network does to a Link.
type Fault int

const (
	Healthy Fault = iota
	// BlackHole: what is sent is lost, both ways, and new connections get no answer.
	BlackHole
	// RepliesLost: half-open. What the client sends arrives, what the server sends
	// is lost.
	RepliesLost
	// Delayed: what is sent takes 200 ms longer each way.
	Delayed
	// Resets: connections are reset, old and new.
	Resets
	// Forgotten: the present connections lose everything and do not end, as behind a
	// firewall that has forgotten them. New ones work.
	Forgotten
)

const linkDelay = 200 * time.Millisecond

// flows are what happens in the two directions.
var flows = map[Fault][2]servers.Flow{
	BlackHole:   {{Lose: true}, {Lose: true}},
	RepliesLost: {{}, {Lose: true}},
	Delayed:     {{Delay: linkDelay}, {Delay: linkDelay}},
}

func (f Fault) String() string {
	return [...]string{"healthy", "black hole", "replies lost", "delay", "reset", "forgotten"}[f]
}

// Link is a link between one participant and a server of its store, for the hooks
// Crash, Cut and Heal of a Store, and for tests of drivers on a broken network.
type Link struct{ *servers.Link }

// NewLink returns a healthy link to the server at target, a host and a port. It
// is closed when the test ends.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	l, err := servers.NewLink(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return &Link{l}
}

// Set changes the fault of the link, from the next bytes on. Healthy resets the
// connections that have lost something.
func (l *Link) Set(f Fault) {
	l.Flow(servers.Up, flows[f][servers.Up])
	l.Flow(servers.Down, flows[f][servers.Down])
	l.Refuse(f == Resets)
	switch f {
	case Resets:
		l.Reset()
	case Forgotten:
		l.Forget()
	}
}

// Redirect puts another server behind the address, and resets all connections.
func (l *Link) Redirect(target string) {
	l.Move(target)
	l.Reset()
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
