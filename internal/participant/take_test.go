// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestTake shows when a waiter believes an event that hands the name over.
func TestTake(t *testing.T) {
	const s = driver.Instant(time.Second)
	now := driver.Now()
	event := func(change func(e *driver.Event)) *driver.Event {
		e := &driver.Event{Kind: driver.Granted, For: time.Second, Heard: now, Grant: driver.Answer{Token: 7, Session: "here", Clock: driver.Clock{At: 9900 * time.Millisecond}}}
		if change != nil {
			change(e)
		}
		return e
	}
	for _, c := range []struct {
		what    string
		e       *driver.Event
		renewed bool
		took    time.Duration
		want    bool
	}{
		{"a claim that has just begun", event(nil), true, time.Millisecond, true},
		{"a caller that does not renew", event(nil), false, time.Millisecond, false},
		{"another connection", event(func(e *driver.Event) { e.Grant.Session = "there" }), true, time.Millisecond, false},
		{"no connection", event(func(e *driver.Event) { e.Grant.Session = nil }), true, time.Millisecond, false},
		{"a claim that is nearly over", event(func(e *driver.Event) { e.Grant.At -= 600 * time.Millisecond }), true, time.Millisecond, false},
		{"a claim that is over before a renewal is answered", event(nil), true, 400 * time.Millisecond, false},
		{"a store that vouches for the TTL", event(func(e *driver.Event) { e.Grant.Since = now - s }), false, 0, true},
		{"a grant from before the last look", event(func(e *driver.Event) { e.Grant.Since, e.Heard = now-20*s, 0 }), false, 0, false},
		{"a TTL from before the last look", event(func(e *driver.Event) { e.Grant.Since = now - 11*s }), false, 0, true},
		{"a message from before the last look", event(func(e *driver.Event) { e.Grant.Since, e.Heard = now-20*s, now-11*s }), false, 0, false},
	} {
		p := &Participant{leases: make(map[string]*Lease), clocks: make(map[string]*clock)}
		a := &attempt{Lease: &Lease{p: p, ttl: 10 * time.Second}, req: driver.Request{Renewed: c.renewed}}
		a.seen = look{now - 10*s, 0, now - 10*s, c.took, "here"}
		if got := a.take(c.e); got != c.want || got != (a.state == held) {
			t.Errorf("%s: taken is %v, want %v", c.what, got, c.want)
		}
	}
}

// TestGrantedAfterLost shows that no event grants anything after a loss: it may be older.
func TestGrantedAfterLost(t *testing.T) {
	w := &waiter{wake: make(chan struct{}, 1)}
	l := &Lease{ref: driver.Ref{Name: "a", Lease: "l"}, waiter: w}
	p := &Participant{leases: map[string]*Lease{"l": l}}
	p.hear(driver.Event{Kind: driver.Lost, Name: "a", Lease: "l"})
	p.hear(driver.Event{Kind: driver.Granted, Name: "a", Lease: "l"})
	if w.granted != nil || !w.lost {
		t.Errorf("after a loss an event grants %v, and the loss is known: %v", w.granted, w.lost)
	}
}

// TestGrantedBeforeMissed shows that a waiter looks after events may have been lost, whatever one has said before.
func TestGrantedBeforeMissed(t *testing.T) {
	w := &waiter{wake: make(chan struct{}, 1)}
	p := &Participant{leases: map[string]*Lease{"l": {ref: driver.Ref{Name: "a", Lease: "l"}, waiter: w}}, confirming: true}
	p.hear(driver.Event{Kind: driver.Granted, Name: "a", Lease: "l"})
	p.hear(driver.Event{Kind: driver.Missed})
	if w.granted != nil || !w.now {
		t.Errorf("after events were missed an earlier one grants %v, and to look at once is %v", w.granted, w.now)
	}
}

// TestAgain shows that a waiter asks in time to keep its place.
func TestAgain(t *testing.T) {
	const again = 7 * time.Second
	for _, session := range []any{nil, "here"} {
		p, _ := scripted(nil)
		ans := driver.Answer{Rank: 1, Free: -1, Session: session}
		without := p.next(ans)
		if ans.Again = again; p.next(ans) != again && without > again {
			t.Errorf("it asks again after %v; want %v", p.next(ans), again)
		}
		if session != nil && without != never {
			t.Errorf("without a need it asks again after %v", without)
		}
	}
}

// TestRepeatedHandle shows that a repeated call has the handle of the lease that is there.
func TestRepeatedHandle(t *testing.T) {
	p, _ := scripted(nil)
	req := &driver.Request{Name: "a", Lease: "l"}
	p.attempt(req).ref.Handle = "place"
	if got := p.attempt(req).ref.Handle; got != "place" {
		t.Errorf("a repeated call has the handle %v", got)
	}
}

// TestHandle shows that the handle of an answer, also of one to a request that has failed, comes with the
// next request for the lease, and with the one that ends it.
func TestHandle(t *testing.T) {
	var had, ended []any
	p, s := scripted(func(req *driver.Request) (driver.Answer, error) {
		if had = append(had, req.Handle); len(had) == 1 {
			return driver.Answer{Handle: "place"}, &driver.Failure{Err: errors.New("no answer"), Maybe: true}
		}
		return driver.Answer{}, &driver.Failure{Err: driver.ErrDenied, Lasting: true, Maybe: true}
	})
	p.answered.Store(true)
	g, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: time.Second, Holder: &driver.Holder{}})
	if g != nil || !errors.Is(err, driver.ErrDenied) {
		t.Fatalf("Acquire = %v, %v", g, err)
	}
	if err := p.Close(); err != nil { // it has ended what the store may have
		t.Error(err)
	}
	for _, l := range s.refs {
		ended = append(ended, l.Handle)
	}
	if want := []any{nil, "place"}; !slices.Equal(had, want) || !slices.Equal(ended, want[1:]) {
		t.Errorf("the requests had the handles %v, the end had %v; want %v, and the last one", had, ended, want)
	}
}
