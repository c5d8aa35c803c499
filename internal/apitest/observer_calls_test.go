// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// calls counts the calls of Acquire that an observer is told of.
type calls struct{ waiting, acquired, tried, waited, ended atomic.Int64 }

func (n *calls) observer() pawl.Observer {
	return pawl.Observer{
		Waiting:  func(pawl.Event) { n.waiting.Add(1) },
		Waited:   func(pawl.Event) { n.waited.Add(1) },
		Released: func(pawl.Event) { n.ended.Add(1) },
		Lost:     func(pawl.Event) { n.ended.Add(1) },
		Acquired: func(e pawl.Event) {
			if e.Tried {
				n.tried.Add(1)
			} else {
				n.acquired.Add(1)
			}
		},
	}
}

func (n *calls) want(t *testing.T, waiting, acquired, waited, tried int64) {
	t.Helper()
	synctest.Wait()
	if n.waiting.Load() != waiting || n.acquired.Load() != acquired || n.waited.Load() != waited || n.tried.Load() != tried {
		t.Errorf("%d waiting, %d acquired, %d waited, %d tried; want %d, %d, %d, %d", n.waiting.Load(), n.acquired.Load(), n.waited.Load(), n.tried.Load(),
			waiting, acquired, waited, tried)
	}
}

// A call that gives up in the instant of the grant is told of once: as an Acquired, or as
// a Waited. Each Acquired is followed by a Released or a Lost. With one processor the waiter finds both events when it wakes.
func TestEveryWaitingEnds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, reserved := range []bool{false, true} {
		var n calls
		for range 100 {
			synctest.Test(t, func(t *testing.T) {
				d := new(memlock.Store).Participant()
				if reserved {
					d = reserve(new(memlock.Store), 1)
				}
				c := open(t, d, &pawl.Options{Observer: n.observer()})
				l := acquire(t, c, "a")
				ctx, cancel := context.WithCancel(context.Background())
				go func() {
					if l, err := c.Acquire(ctx, "a"); err == nil {
						release(t, l)
					}
				}()
				synctest.Wait()
				release(t, l)
				cancel()
				synctest.Wait()
			})
		}
		waiting, acquired, waited := n.waiting.Load(), n.acquired.Load(), n.waited.Load()
		if waiting != 200 || acquired+waited != waiting || n.tried.Load() != 0 || n.ended.Load() != acquired {
			t.Errorf("reserved tokens %v: %d began to wait, %d acquired, %d ended and %d gave up; want 200 in both", reserved, waiting, acquired, n.ended.Load(), waited)
		}
	}
}

// Whatever does not wait is no Waiting, and no Waited.
func TestCallsThatDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n calls
		c := open(t, new(memlock.Store).Participant(), &pawl.Options{Observer: n.observer()})
		ctx := t.Context()
		if _, err := c.Acquire(ctx, ""); err == nil {
			t.Error("a name that is empty")
		}
		tried, err := c.TryAcquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		n.want(t, 0, 0, 0, 1)
		inner, cancel := tried.Context(ctx)
		defer cancel()
		_, err = c.Acquire(inner, "a")
		wantIs(t, err, pawl.ErrHeld)
		again, err := c.Acquire(inner, "a", pawl.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		n.want(t, 0, 0, 0, 1)
		release(t, again)
		release(t, tried)
		if err := acquireAll(t, c, []string{"b", "c"}).Release(ctx); err != nil {
			t.Error(err)
		}
		n.want(t, 2, 2, 0, 1)
		release(t, acquire(t, c, "a"))
		n.want(t, 3, 3, 0, 1)
	})
}

// An observer is told how much of the trust window was left when a renewal came, and that
// MaxHold has nothing to do with it.
func TestWhatARenewalLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		var renewed, suspect []pawl.Event
		c := open(t, d, &pawl.Options{TTL: 9 * time.Second, Observer: pawl.Observer{
			Renewed: func(e pawl.Event) { renewed = append(renewed, e) },
			Suspect: func(e pawl.Event) { suspect = append(suspect, e) },
		}})
		answers(d, func(int64) time.Duration { return time.Second })
		l := acquire(t, c, "a", pawl.MaxHold(8*time.Second))
		time.Sleep(7500 * time.Millisecond)
		synctest.Wait()
		whole := 9*time.Second - driver.Drift(9*time.Second)
		for _, e := range renewed {
			// Renewals are due at a third of the TTL, or up to a tenth of that earlier.
			if least := whole - 4*time.Second; e.Left < least || e.Left > least+300*time.Millisecond || e.TTL != 9*time.Second {
				t.Errorf("%v of %v was left; want %v to %v", e.Left, e.TTL, least, least+300*time.Millisecond)
			}
		}
		if len(renewed) != 2 || len(suspect) != 0 {
			t.Errorf("%d renewals and %d suspicions; want 2 and 0", len(renewed), len(suspect))
		}
		release(t, l)
		cutRenewals(d)
		l = acquire(t, c, "b")
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if least := whole - 3*time.Second; len(suspect) != 1 || suspect[0].Left < least || suspect[0].Left > least+300*time.Millisecond {
			t.Errorf("suspect: %+v; want one with %v left", suspect, least)
		}
		release(t, l)
	})
}

// JoinObservers leaves out no event and asks for none that nobody wants.
func TestJoinObservers(t *testing.T) {
	fields := reflect.TypeFor[pawl.Observer]()
	for i := range fields.NumField() {
		if fields.Field(i).Name == "Trace" { // it is asked, and not told
			continue
		}
		var told []string
		one := func(name string) (o pawl.Observer) {
			reflect.ValueOf(&o).Elem().Field(i).Set(reflect.ValueOf(func(e pawl.Event) { told = append(told, name+" "+e.Name) }))
			return o
		}
		all := reflect.ValueOf(pawl.JoinObservers(one("first"), pawl.Observer{}, one("second")))
		for j := range fields.NumField() {
			f, _ := all.Field(j).Interface().(func(pawl.Event))
			if (f != nil) != (i == j) {
				t.Errorf("joined of two %s: %s is set: %v", fields.Field(i).Name, fields.Field(j).Name, f != nil)
			} else if f != nil {
				f(pawl.Event{Name: "a"})
			}
		}
		if len(told) != 2 || told[0] != "first a" || told[1] != "second a" {
			t.Errorf("%s: told %q; want the first and the second", fields.Field(i).Name, told)
		}
	}
	trace := func(text string) pawl.Observer {
		return pawl.Observer{Trace: func(context.Context) string { return text }}
	}
	if o := pawl.JoinObservers(pawl.Observer{}, trace(""), trace("second"), trace("third")); o.Trace(t.Context()) != "second" {
		t.Errorf("the trace is %q; want that of the first that knows one", o.Trace(t.Context()))
	}
}
