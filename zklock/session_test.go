// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestTrust: a lease is trusted from the sending of a request only if the leader has
// certainly heard of the session so late that the timeout is longer than the TTL.
func TestTrust(t *testing.T) {
	const ttl = 30 * time.Second
	st := &store{tick: 2 * time.Second}
	timeout := st.timeoutFor(purpose{ttl, true})
	if most := st.longestTTL(timeout, true); most < ttl || most > ttl+10*time.Millisecond {
		t.Errorf("a session for a TTL of %v has a longest TTL of %v", ttl, most)
	}
	now := driver.Now()
	ago := func(d time.Duration) driver.Instant { return now.Add(-d) }
	const answer = 10 * time.Millisecond
	const second, long = time.Second, time.Minute
	// A window is a tick between an answer and the next request, or more.
	window := 2*second + answer
	for _, c := range []struct {
		name      string
		connected time.Duration   // ago
		touches   []time.Duration // sent so long ago
		counted   time.Duration   // ago: from then the leader counts, or from later
	}{
		{"just connected", second, nil, second},
		{"connected long ago", long, nil, long},
		{"asked often", long, []time.Duration{12 * second, 9 * second, 6 * second, 3 * second, second}, 6 * second},
		// A follower that is cut off now has not told the leader of the last one.
		{"asked just before", long, []time.Duration{second}, long},
		{"one window", long, []time.Duration{window}, long}, // the leader may have paused in it
		{"two windows", long, []time.Duration{2 * window, window}, 2 * window},
		// The leader asks every half tick, and may be late by as much.
		{"half a tick is no window", long, []time.Duration{3 * window, 2 * window, second + answer}, 3 * window},
		{"half a tick is no window before another", long, []time.Duration{3 * window, window + second + answer, window}, 3 * window},
		// A leader that has paused answers what came meanwhile all at once.
		{"the leader has paused", long, []time.Duration{15 * second, 12 * second, 20 * time.Millisecond, answer}, 15 * second},
	} {
		l := new(link)
		s := &session{purpose: purpose{ttl: ttl}, store: st, timeout: timeout, link: l, counted: ago(c.connected)}
		short := &session{purpose: purpose{ttl: ttl}, store: st, timeout: ttl, link: l, counted: ago(c.connected)}
		for _, d := range c.touches {
			s.touches = append(s.touches, touch{ago(d), ago(d).Add(answer)})
		}
		short.touches = slices.Clone(s.touches)
		if since, err := short.confirm(sending{now, l}); err != nil || since != ago(c.counted) {
			t.Errorf("%s, in a session as long as the TTL: trusted since %v after the sending, %v; want %v", c.name, since.Sub(now), err, -c.counted)
		}
		want := min(now, ago(c.counted).Add(timeout-ttl))
		if since, err := s.confirm(sending{now, l}); err != nil || since != want {
			t.Errorf("%s: trusted since %v after the sending, %v; want %v", c.name, since.Sub(now), err, want.Sub(now))
		}
		if s.counted != ago(c.counted) {
			t.Errorf("%s: the leader counts from %v before the sending; want %v", c.name, now.Sub(s.counted), c.counted)
		}
		if _, err := s.confirm(sending{now, new(link)}); err == nil {
			t.Errorf("%s: what went over another connection is trusted", c.name)
		}
	}
}

// TestTrustedEnough: a lease that is not renewed begins with its whole TTL, and one that
// is renewed with a third of it if need be.
func TestTrustedEnough(t *testing.T) {
	const ttl = 30 * time.Second
	st := &store{tick: 2 * time.Second}
	l := new(link)
	for _, c := range []struct {
		late           time.Duration // of the leader's count, beyond what the timeout allows for
		fixed, renewed bool
	}{
		{-time.Second, true, true}, {time.Second, false, true}, {9 * time.Second, false, true}, {19 * time.Second, false, true}, {21 * time.Second, false, false}, {time.Minute, false, false},
	} {
		for _, renewed := range []bool{true, false} {
			s := &session{purpose: purpose{ttl, !renewed}, store: st, timeout: st.timeoutFor(purpose{ttl, true}), link: l}
			now := driver.Now()
			s.counted = now.Add(ttl - s.timeout - c.late)
			since, err := s.trusted(sending{now, l})
			if want := renewed && c.renewed || !renewed && c.fixed; (err == nil) != want {
				t.Errorf("the leader counts %v too early: trusted since %v, %v; want trust to be %v", c.late, since.Sub(now), err, want)
			}
		}
	}
}

// TestTimeouts: for any TTL the session is long enough for it, and no longer than it has to be.
func TestTimeouts(t *testing.T) {
	for _, tick := range []time.Duration{100 * time.Millisecond, 2 * time.Second, 10 * time.Second} {
		st := &store{tick: tick}
		for ttl := driver.MinTTL; ttl < time.Hour; ttl += ttl/7 + 1 {
			for _, whole := range []bool{false, true} {
				timeout := st.timeoutFor(purpose{ttl, whole})
				if most := st.longestTTL(timeout.Truncate(time.Millisecond), whole); most < ttl {
					t.Errorf("tick %v, TTL %v, whole %v: the session of %v is for %v only", tick, ttl, whole, timeout, most)
				}
				if more := timeout - ttl; !whole && ttl >= fewTicks*tick && more > 2*time.Millisecond {
					t.Errorf("tick %v, TTL %v: who is killed keeps others out for %v more", tick, ttl, more)
				}
				if whole && timeout-ttl < st.slack(timeout) {
					t.Errorf("tick %v, TTL %v: the session of %v leaves no room for two windows", tick, ttl, timeout)
				}
			}
		}
	}
}

// TestRefusedTTL: a TTL that the servers' sessions cannot give is refused. A store that only looks needs none.
func TestRefusedTTL(t *testing.T) {
	t.Parallel()
	s := startServer(t, "maxSessionTimeout=40000")
	if _, err := Open(t.Context(), s.url(), options(time.Minute)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Open with a TTL of 1m = %v; want it refused", err)
	}
	looks := openURL(t, s.url(), time.Minute)
	if _, err := looks.List(t.Context(), ""); err != nil {
		t.Errorf("List = %v", err)
	}
	if _, err := looks.Acquire(t.Context(), request("deploy", time.Minute)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Acquire with a TTL of 1m = %v; want it refused", err)
	}
	release(t, take(t, looks, request("deploy", 30*time.Second)))
}

// TestManyTTLs: a client has a session for each TTL, but not any number of them.
func TestManyTTLs(t *testing.T) {
	t.Parallel()
	d := openURL(t, sharedServer(t).url(), 10*time.Second)
	for i := range maxSessions - 1 { // one is for looking
		release(t, take(t, d, request("ttls", time.Duration(i+10)*time.Second)))
	}
	for _, acquire := range []func(context.Context, *driver.Request) (*participant.Lease, error){d.TryAcquire, d.Acquire} {
		if g, err := acquire(t.Context(), request("ttls", time.Minute)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("with a session too many: %v, %v; want ErrUnsupported", g, err)
		}
	}
	release(t, take(t, d, request("ttls", 10*time.Second)))
}

// TestLostData: the servers come back without their data, and refuse whoever has seen
// more than they know. The client begins anew.
func TestLostData(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const ttl = 5 * time.Second
	d := openURL(t, s.url(), ttl)
	g := take(t, d, request("deploy", ttl))
	s.Kill()
	must(t, errors.Join(s.Forget(), s.Start()))
	var next *participant.Lease
	drivertest.Until(t, "the client cannot be used any more", func() bool { // three timeouts of silence, and more
		var err error
		next, err = d.TryAcquire(t.Context(), request("deploy", ttl))
		return err == nil
	})
	if until := g.Since().Add(ttl); driver.Now() < until {
		t.Errorf("another lease was granted %v before the end of the lost one", until.Sub(driver.Now()))
	}
	release(t, next)
}

// TestTrustFromSending: trust counts from before a request was sent, however long its answer takes.
func TestTrustFromSending(t *testing.T) {
	t.Parallel()
	const ttl, most = time.Minute, 8 * time.Second
	s := startServer(t)
	d := openURL(t, s.url(), ttl)
	name := func(try int) string { return fmt.Sprint("slow/", try) }
	for try := range 4 {
		release(t, take(t, d, request(name(try), ttl))) // the nodes of the names are there now
	}
	var g *lease
	drivertest.FromSending(t, &s.Server, "TryAcquire", most, func(try int) driver.Instant {
		g = take(t, d, request(name(try), ttl))
		return g.Since()
	})
	drivertest.FromSending(t, &s.Server, "Renew", most, func(int) driver.Instant {
		since, err := g.Renew(t.Context(), ttl)
		if err != nil {
			t.Error(err)
		}
		return since
	})
	release(t, g)
}

// offline returns a store whose attempts to connect fail. It counts them.
func offline(t *testing.T, dials *atomic.Int32) *store {
	p := &place{addrs: []string{"127.0.0.1:1"}}
	p.opts.Dial = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, io.EOF
	}
	s, err := newStore(p)
	must(t, err)
	return s
}

// TestCloseBesideAnEnd: a session may end in the instant of Close, as a server says so.
// Close waits for its connection even if all else that the session does is over by then.
func TestCloseBesideAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := offline(t, new(atomic.Int32))
		n, err := s.sessionFor(purpose{ttl: s.ttl})
		must(t, err)
		<-get(n, &n.away) // from now on it sleeps and tries again
		s.cancel()
		synctest.Wait()
		waited := make(chan struct{})
		go func() {
			s.work.Wait()
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Close would not wait for a session that ends now")
		default:
		}
		n.end(errSession)
		<-waited
	})
}

// TestAwayAtThePaceOfConnecting: while no server can be reached, each call fails with an attempt to
// connect, and not at once with one of before.
func TestAwayAtThePaceOfConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		s := offline(t, &dials)
		defer s.Close()
		for range 10 {
			before := dials.Load()
			if _, err := s.Ask(t.Context(), request("away", s.ttl)); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("Ask = %v; want ErrUnavailable", err)
			}
			if dials.Load() == before {
				t.Fatal("Ask fails without an attempt to connect")
			}
		}
	})
}

// TestTickIsLearned: the servers say how long their ticks are, and the error of a TTL that is
// too long for them says what is taken for a tick, and why.
func TestTickIsLearned(t *testing.T) {
	t.Parallel()
	s := startServer(t, "tickTime=500", "maxSessionTimeout=10000")
	open := func(o Options) error {
		o.TTL = 5 * time.Second
		c, err := Open(t.Context(), s.url(), &o)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if err := open(Options{}); err != nil {
		t.Errorf("Open with a TTL of 5s and ticks of 500ms = %v", err)
	}
	err := open(Options{TickTime: 2 * time.Second})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "ticks of 2s, as tick_time says") {
		t.Errorf("Open with a tick time of 2s = %v; want the tick in it", err)
	}
	mute := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &muteConn{Conn: conn}, err
	}
	if err = open(Options{Dial: mute}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "set ?tick_time=") {
		t.Errorf("Open where the servers do not answer conf = %v; want what to set", err)
	}
	// The one that does not answer may be the leader, with longer ticks.
	gone := s.url() + ",127.0.0.1:1"
	o := Options{Options: pawl.Options{TTL: 5 * time.Second}}
	if _, err := Open(t.Context(), gone, &o); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "ticks of 2s, as not every server has answered") {
		t.Errorf("Open where one of two servers does not answer conf = %v; want ticks of 2s", err)
	}
}

// muteConn is a connection to a server that does not allow the word conf.
type muteConn struct{ net.Conn }

func (c *muteConn) Write(b []byte) (int, error) {
	if string(b) == "conf" {
		return c.Conn.Write([]byte("none"))
	}
	return c.Conn.Write(b)
}
