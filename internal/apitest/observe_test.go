// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// observe observes "a" until the test ends, and sends what it is told: a value, - for none, or
// an error.
func observe(t *testing.T, c *pawl.Client) <-chan string {
	told := make(chan string, 100)
	go func() {
		defer close(told)
		for leader, err := range c.Observe(t.Context(), "a") {
			switch {
			case err != nil:
				told <- err.Error()
			case leader.Lease == "":
				told <- "-"
			default:
				told <- leader.Why
			}
		}
	}()
	return told
}

// tell returns what the observer is told within a second and a half.
func tell(told <-chan string) (all []string) {
	time.Sleep(1500 * time.Millisecond)
	for len(told) > 0 {
		all = append(all, <-told)
	}
	return all
}

func wantTold(t *testing.T, told <-chan string, want ...string) {
	t.Helper()
	if got := tell(told); !slices.Equal(got, want) {
		t.Errorf("the observer is told %q, want %q", got, want)
	}
}

// An observer learns of each leader, with its value, and of no renewal.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c := open(t, s.Participant(), nil)
		told := observe(t, open(t, s.Participant(), nil))
		wantTold(t, told, "-")
		resign := make(chan struct{})
		lead := func(context.Context, *pawl.Lease) error { <-resign; return nil }
		go c.Elect(t.Context(), "a", lead, pawl.Why("http://one"))
		wantTold(t, told, "http://one")
		go open(t, s.Participant(), nil).Elect(t.Context(), "a", lead, pawl.Why("http://two"))
		time.Sleep(time.Hour)
		wantTold(t, told)
		resign <- struct{}{}
		wantTold(t, told, "http://two")
		resign <- struct{}{}
		wantTold(t, told, "-")
	})
}

// An outage is told once, and the leader again when it is over, also if it is the same.
func TestObserveInAnOutage(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"pawl: observe \"a\": store unavailable: no route to host": func(context.Context) error {
			return storeError{pawl.ErrUnavailable, "no route to host"}
		},
		"pawl: observe \"a\": store unavailable: it has not answered for 5s": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			d := show(s, nil)
			acquire(t, open(t, s.Participant(), nil), "a", pawl.Why("one"))
			told := observe(t, open(t, d, nil))
			wantTold(t, told, "one")
			d.set(func(ctx context.Context, _ string) (*driver.Info, error) { return nil, fail(ctx) })
			time.Sleep(time.Minute)
			wantTold(t, told, name)
			d.set(nil)
			time.Sleep(10 * time.Second)
			wantTold(t, told, "one")
		})
	}
}

type storeError struct {
	kind error
	text string
}

func (e storeError) Error() string { return e.kind.Error() + ": " + e.text }
func (e storeError) Unwrap() error { return e.kind }

// A store that shows what was, as a replica may, takes no observer back.
func TestObserveNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := show(new(memlock.Store), nil)
		shows := func(token pawl.Token, holders ...string) {
			info := &driver.Info{Name: "a", Token: token}
			for _, h := range holders {
				info.Holders = append(info.Holders, driver.Held{Lease: h, Token: token, Why: h})
			}
			d.set(func(context.Context, string) (*driver.Info, error) { return info, nil })
		}
		shows(7, "seven")
		told := observe(t, open(t, d, nil))
		wantTold(t, told, "seven")
		shows(6, "six")
		wantTold(t, told)
		shows(6)
		wantTold(t, told)
		shows(7)
		wantTold(t, told, "-")
		shows(6, "six")
		wantTold(t, told)
		shows(8, "eight")
		wantTold(t, told, "eight")
	})
}

// It ends with the context, with the loop, when the client is closed, and when asking again is of
// no use.
func TestObserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := show(s, nil)
		c := open(t, d, nil)
		count := func(ctx context.Context, c *pawl.Client, name string) (n int, last error) {
			for _, err := range c.Observe(ctx, name) {
				n, last = n+1, err
			}
			return n, last
		}
		for range c.Observe(t.Context(), "a") {
			break
		}
		ctx := within(t, 10*time.Second)
		if n, err := count(ctx, c, "a"); n != 1 || err != nil {
			t.Errorf("until the end of ctx: told %d times, %v", n, err)
		}
		if n, err := count(t.Context(), c, ""); n != 1 || err == nil {
			t.Errorf("no name: told %d times, %v", n, err)
		}
		n, err := count(t.Context(), open(t, tap(s), nil), "a")
		if wantIs(t, err, errors.ErrUnsupported); n != 1 {
			t.Errorf("a store that shows nothing: told %d times", n)
		}
		d.set(func(context.Context, string) (*driver.Info, error) {
			return nil, errors.Join(pawl.ErrUnavailable, pawl.ErrDenied)
		})
		n, err = count(t.Context(), c, "a")
		if wantIs(t, err, pawl.ErrDenied); n != 1 {
			t.Errorf("a store that lets nobody in: told %d times", n)
		}
		d.set(func(ctx context.Context, _ string) (*driver.Info, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		time.AfterFunc(time.Second, func() { c.Close() })
		_, err = count(t.Context(), c, "a")
		wantIs(t, err, pawl.ErrClosed)
	})
}
