// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// script is a store that answers as a test says, and notes how leases were ended.
type script struct {
	driver.Basic
	ask     func(req *driver.Request) (driver.Answer, error)
	guarded error
	during  func() // called once while a lease is ended

	mu    sync.Mutex
	ended []driver.End
	refs  []driver.Ref
}

func (s *script) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{CrossHost: true, Shared: true}, Queue: true, Downgrades: true}
}

func (s *script) Ask(_ context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := s.ask(req)
	ans.Since = driver.Now()
	return ans, err
}

func (s *script) Renew(context.Context, driver.Ref, time.Duration) (driver.Renewal, error) {
	return driver.Renewal{Since: driver.Now()}, nil
}

func (s *script) End(_ context.Context, l driver.Ref, how driver.End) (bool, error) {
	s.mu.Lock()
	s.ended, s.refs = append(s.ended, how), append(s.refs, l)
	during := s.during
	s.during = nil
	s.mu.Unlock()
	if during != nil {
		during()
	}
	return true, nil
}

func (s *script) Describe(context.Context) (*driver.StoreInfo, error) {
	return nil, &driver.Failure{Err: errors.New("no answer"), Maybe: true}
}

func (s *script) Guard(_ context.Context, _ driver.Ref, token uint64, _ any, ended error) error {
	s.guarded = ended
	if token != 7 {
		return errors.New("another token")
	}
	return ended
}

func scripted(ask func(req *driver.Request) (driver.Answer, error)) (*Participant, *script) {
	s := &script{ask: ask}
	return New(s, Options{}), s
}

// tried returns a lease that the store grants at once.
func tried(t *testing.T, p *Participant, ttl time.Duration) *Lease {
	t.Helper()
	l, err := p.TryAcquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: ttl, Holder: &driver.Holder{}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestGuard shows that a lease which has ended guards nothing.
func TestGuard(t *testing.T) {
	p, s := scripted(func(*driver.Request) (driver.Answer, error) {
		return driver.Answer{Granted: true, Token: 7, Spare: 100}, nil
	})
	g := tried(t, p, time.Minute)
	if n, _ := g.Reserved(); n != 100 {
		t.Errorf("%d tokens are reserved; want 100", n)
	}
	if err := g.Guard(t.Context(), nil, nil); err != nil || s.guarded != nil {
		t.Errorf("Guard = %v", err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Guard(t.Context(), nil, nil); !errors.Is(err, driver.ErrReleased) || !errors.Is(s.guarded, driver.ErrReleased) {
		t.Errorf("Guard after Release = %v, and the store was told %v", err, s.guarded)
	}
}

// TestHandedLate shows that an event which grants a name may come while its lease is given back. Then nobody declines
// the name: only one of two ends finds the lease, and the holder would be told that it had lost it.
func TestHandedLate(t *testing.T) {
	p, s := scripted(func(*driver.Request) (driver.Answer, error) {
		return driver.Answer{Granted: true, Token: 7}, nil
	})
	g := tried(t, p, time.Minute)
	s.during = func() { p.hear(driver.Event{Kind: driver.Granted, Name: "a", Lease: "l"}) }
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.work.Wait()
	if len(s.ended) != 1 {
		t.Errorf("the lease was ended %d times; want once", len(s.ended))
	}
}

// TestDowngradeInDoubt shows that the store is told of requests for an exclusive lease that it may receive after the
// lease was turned into a shared one.
func TestDowngradeInDoubt(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		lost := doubt
		p, s := scripted(func(req *driver.Request) (driver.Answer, error) {
			if lost {
				lost = false
				return driver.Answer{}, &driver.Failure{Err: errors.New("no answer"), Maybe: true}
			}
			return driver.Answer{Granted: true, Token: 7 + uint64(len(req.Instead))}, nil
		})
		req := &driver.Request{Name: "a", Lease: "l", TTL: time.Minute}
		g, err := p.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Downgrade(t.Context(), &driver.Request{Name: "a", Lease: "m", TTL: time.Minute, Shared: true}); err != nil {
			t.Fatal(err)
		}
		want := driver.End{Unsure: true, Doubt: true}
		if told := len(s.ended) == 1 && s.refs[0].Lease == "l" && s.ended[0] == want; told != doubt || !doubt && len(s.ended) > 0 {
			t.Errorf("a request in doubt is %v; the store was told %+v of %+v", doubt, s.ended, s.refs)
		}
	}
}

// TestDowngradeWhileClosed shows that a store which grants nothing for a while says so.
func TestDowngradeWhileClosed(t *testing.T) {
	closed := time.Duration(0)
	p, _ := scripted(func(*driver.Request) (driver.Answer, error) {
		return driver.Answer{Granted: closed == 0, Closed: closed}, nil
	})
	g := tried(t, p, time.Minute)
	closed = time.Minute
	var is *driver.ClosedError
	if _, err := g.Downgrade(t.Context(), &driver.Request{Name: "a", Lease: "m", TTL: time.Minute, Shared: true}); !errors.As(err, &is) || is.Left != closed {
		t.Errorf("Downgrade = %v; want a ClosedError", err)
	}
}

// TestLooked shows that a look without an answer leaves nothing in doubt.
func TestLooked(t *testing.T) {
	p, _ := scripted(nil)
	if _, err := p.Describe(t.Context()); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Describe = %v; want ErrUnavailable", err)
	}
}

// TestUncertainAtFirst shows that a first request which may have been carried out is repeated, and that one which certainly was
// not ends the call.
func TestUncertainAtFirst(t *testing.T) {
	for _, maybe := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			p, _ := scripted(func(*driver.Request) (driver.Answer, error) {
				if asked++; asked == 1 {
					return driver.Answer{}, &driver.Failure{Err: errors.New("the connection has ended"), Maybe: maybe, Silent: true}
				}
				return driver.Answer{Granted: true, Token: 7}, nil
			})
			defer p.Close()
			g, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: time.Minute, Holder: &driver.Holder{}})
			if (err == nil) != maybe || (g != nil) != maybe {
				t.Errorf("Acquire after a request that may have been carried out, %v: %v, %v", maybe, g, err)
			}
		})
	}
}

// TestDeclined shows that a name which is handed to a caller that has gone is given back.
func TestDeclined(t *testing.T) {
	p, s := scripted(nil)
	p.hear(driver.Event{Kind: driver.Granted, Name: "a", Lease: "gone"})
	if err := p.Close(); err != nil || len(s.refs) != 1 || s.refs[0].Lease != "gone" {
		t.Errorf("Close = %v; ended were %+v, want the lease that was granted", err, s.refs)
	}
}

// TestGrantsThatComeTooLate: Acquire asks again after a few grants that have ended before they come, but not for ever.
func TestGrantsThatComeTooLate(t *testing.T) {
	for late, granted := range map[int]bool{1: true, maxLate: true, 3 * maxLate: false} {
		synctest.Test(t, func(t *testing.T) {
			answers := 0
			p := New(&expiring{&script{ask: func(req *driver.Request) (driver.Answer, error) {
				if answers++; answers <= late {
					time.Sleep(2 * req.TTL)
				}
				return driver.Answer{Granted: true, Token: 7}, nil
			}}}, Options{})
			defer p.Close()
			l, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: 3 * time.Second})
			if granted != (l != nil) || granted == isLate(err) {
				t.Errorf("after %d late grants: %v; want a lease: %v", late, err, granted)
			}
		})
	}
}
