// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

var outcomes = []error{pawl.ErrHeld, pawl.ErrLost, pawl.ErrReleased, pawl.ErrUnavailable, pawl.ErrDenied, pawl.ErrDisagree,
	pawl.ErrUncertain, pawl.ErrDeadlock, pawl.ErrClosed}

// wantOne checks that err is one outcome at most.
func wantOne(t testing.TB, what string, err error) {
	t.Helper()
	var is []error
	for _, o := range outcomes {
		if errors.Is(err, o) {
			is = append(is, o)
		}
	}
	if len(is) > 1 {
		t.Errorf("%s: %v: is %q; want one of them", what, err, is)
	}
}

// failing is a store that answers every request with one error, once its time has come.
type failing struct {
	driver.Store
	err error
}

func (d *failing) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if d.err != nil {
		return driver.Answer{}, d.err
	}
	return d.Store.Ask(ctx, req)
}

func (d *failing) Inspect(context.Context, string) (*driver.Info, error) { return nil, d.err }
func (d *failing) List(context.Context, string) ([]*driver.Info, error)  { return nil, d.err }
func (d *failing) Break(context.Context, string, string, *driver.Holder, string) error {
	return d.err
}
func (d *failing) Describe(context.Context) (*driver.StoreInfo, error) { return nil, d.err }
func (d *failing) Close() error                                        { return d.err }

func (d *failing) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if d.err != nil {
		return driver.Renewal{}, d.err
	}
	return d.Store.Renew(ctx, l, ttl)
}

func (d *failing) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	if d.err != nil {
		return false, d.err
	}
	return d.Store.End(ctx, l, how)
}

func (d *failing) Guard(context.Context, driver.Ref, uint64, any, error) error { return d.err }

// TestOutcomesAreDisjoint: whatever a store returns, every error of this package is an *Error and one outcome.
func TestOutcomesAreDisjoint(t *testing.T) {
	for _, a := range outcomes {
		for _, b := range outcomes {
			if a != b {
				synctest.Test(t, func(t *testing.T) { disjoint(t, fmt.Errorf("%w: %w: %w", a, b, errNet)) })
			}
		}
	}
}

func disjoint(t *testing.T, err error) {
	ctx := t.Context()
	d := &failing{Store: new(memlock.Store).Participant()}
	c, _ := pawl.New(d, nil)
	want := func(what string, err error) {
		t.Helper()
		wantOne(t, what, err)
		if !errors.Is(err, errNet) && !errors.Is(err, pawl.ErrReleased) && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("%s: %v has lost its cause", what, err)
		}
		if !errors.As(err, new(*pawl.Error)) {
			t.Errorf("%s: %v is no *pawl.Error", what, err)
		}
	}
	var leases []*pawl.Lease
	for i := range 7 {
		leases = append(leases, acquire(t, c, fmt.Sprint(i)))
	}
	lctx, cancel := leases[0].Context(ctx)
	defer cancel()
	all, allErr := c.AcquireAll(ctx, []string{"x", "y"})
	if allErr != nil {
		t.Fatal(allErr)
	}
	ends := c.Do(ctx, "do", func(context.Context, *pawl.Lease) error { d.err = err; return err })
	want("Do", ends)
	_, got := c.TryAcquire(ctx, "a")
	want("TryAcquire", got)
	few, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, got = c.Acquire(few, "a")
	want("Acquire", errors.Join(got, errNet))
	want("Extend", leases[1].Extend(ctx, time.Minute))
	_, lowered := leases[2].Downgrade(ctx)
	want("Downgrade", lowered)
	want("Release after Downgrade", leases[2].Release(ctx))
	want("Guard", leases[3].Guard(ctx, nil))
	want("Release", leases[4].Release(ctx))
	_, got = c.Inspect(ctx, "a")
	want("Inspect", got)
	_, got = c.List(ctx, "")
	want("List", got)
	_, got = c.Store(ctx)
	want("Store", got)
	want("Break", c.Break(ctx, "a", "id", ""))
	for _, got := range c.Observe(few, "a") {
		want("Observe", got)
	}
	want("Elect", errors.Join(c.Elect(few, "a", func(context.Context, *pawl.Lease) error { return nil }), errNet))
	time.Sleep(time.Hour) // all leases are lost
	want("a lease that is lost", leases[0].Err())
	want("the context of a lease that is lost", context.Cause(lctx))
	want("the release of a lease that is lost", leases[0].Release(ctx))
	want("Leases", all.Err())
	want("the release of several", all.Release(ctx))
	want("Close", c.Close())
}

// TestDoubtsOfEachOperation: what is uncertain depends on what was asked for.
func TestDoubtsOfEachOperation(t *testing.T) {
	for _, test := range []struct{ op, name, want string }{
		{"acquire", "a", `pawl: acquire "a": outcome uncertain: the store may have recorded the grant: no route`},
		{"release", "a", `pawl: release "a": outcome uncertain: the store may still have the lease: no route`},
		{"break", "a", `pawl: break "a": outcome uncertain: the lease may have ended: no route`},
		{"extend", "a", `pawl: extend "a": outcome uncertain: the store may have extended the lease: no route`},
		{"list", "", `pawl: list: outcome uncertain: no route`},
		{"", "a", `pawl: "a": outcome uncertain: no route`},
		{"", "", `pawl: outcome uncertain: no route`},
	} {
		err := &pawl.Error{Op: test.op, Name: test.name, Err: fmt.Errorf("%w: no route", pawl.ErrUncertain)}
		if got := err.Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// TestNothingPanics: what the compiler cannot see is an error, and not a panic.
func TestNothingPanics(t *testing.T) {
	ctx := t.Context()
	if _, err := pawl.New(nil, nil); err == nil || !strings.Contains(err.Error(), "use Open") {
		t.Errorf("New without a driver: %v", err)
	}
	c := open(t, new(memlock.Store).Participant(), nil)
	for what, err := range map[string]error{"Do": c.Do(ctx, "a", nil), "TryDo": c.TryDo(ctx, "a", nil), "Elect": c.Elect(ctx, "a", nil)} {
		if err == nil || !strings.Contains(err.Error(), `"a": the function to call is nil`) {
			t.Errorf("%s without a function: %v", what, err)
		}
	}
	lowered := func(l *pawl.Lease) error { _, err := l.Downgrade(ctx); return err }
	for _, l := range []*pawl.Lease{nil, {}} {
		for what, err := range map[string]error{
			"Err": l.Err(), "Progress": l.Progress(), "Extend": l.Extend(ctx, time.Minute), "Downgrade": lowered(l),
			"Guard": l.Guard(ctx, nil), "Release": l.Release(ctx),
		} {
			if !errors.Is(err, pawl.ErrReleased) {
				t.Errorf("%s of no lease: %v", what, err)
			}
		}
		<-l.Done()
		lctx, cancel := l.Context(ctx)
		cancel()
		wantIs(t, context.Cause(lctx), pawl.ErrReleased)
		if got := fmt.Sprint(l, l.State(), l.Name(), l.ID(), l.Token(), l.Holds(), l.Files(), l.Deadline().IsZero()); got != "no lease released0 0 [] true" {
			t.Errorf("no lease is %q", got)
		}
	}
	var all pawl.Leases
	wantIs(t, all.Err(), pawl.ErrReleased)
	wantIs(t, all.Release(ctx), pawl.ErrReleased)
	<-all.Done()
	lctx, cancel := all.Context(ctx)
	cancel()
	wantIs(t, context.Cause(lctx), pawl.ErrReleased)
}

// fill sets every field below v.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1<<30, 0)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString(v.Type().Name() + "text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(9)
	case reflect.Uint64:
		v.SetUint(8)
	case reflect.Interface:
		v.Set(reflect.ValueOf(errNet))
	}
}

func asJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInfoIsWhole: users see all that a store says about a name.
func TestInfoIsWhole(t *testing.T) {
	said := new(driver.Info)
	fill(reflect.ValueOf(said).Elem())
	for i, flag := range []*bool{&said.Holders[1].Shared, &said.Holders[1].Keeps, &said.Holders[1].Idle, &said.Holders[1].Orphan} {
		*flag = i%2 == 0
	}
	c := open(t, show(new(memlock.Store), func(context.Context, string) (*driver.Info, error) { return said, nil }), nil)
	got, err := c.Inspect(t.Context(), "a")
	if err != nil || asJSON(t, got) != asJSON(t, said) {
		t.Errorf("Inspect = %s, %v;\nwant      %s", asJSON(t, got), err, asJSON(t, said))
	}
}

// find is errors.As for a type that is not known before.
func find[E error](err error) error {
	if e, ok := errors.AsType[E](err); ok {
		return e
	}
	return nil
}

// TestErrorsOfStores: errors.As finds the error of package pawl, whole and with the same text.
func TestErrorsOfStores(t *testing.T) {
	d := &failing{Store: new(memlock.Store).Participant()}
	c := open(t, d, nil)
	for _, k := range []struct {
		said error
		find func(error) error
	}{
		{new(driver.HeldError), find[*pawl.HeldError]},
		{new(driver.LostError), find[*pawl.LostError]},
		{new(driver.ClosedError), find[*pawl.ClosedError]},
		{new(driver.SilentError), find[*pawl.SilentError]},
		{new(driver.SlotsError), find[*pawl.SlotsError]},
	} {
		for _, whole := range []bool{false, true} {
			if whole {
				fill(reflect.ValueOf(k.said).Elem())
			}
			for _, d.err = range []error{k.said, fmt.Errorf("%w: %w: %w", pawl.ErrUncertain, driver.ErrUnavailable, k.said)} {
				_, err := c.Inspect(t.Context(), "a")
				got := k.find(err)
				if got == nil || got.Error() != k.said.Error() || asJSON(t, got) != asJSON(t, k.said) {
					t.Errorf("%T: errors.As finds %#v in %v; want %#v", k.said, got, err, k.said)
				}
				for _, o := range outcomes {
					if errors.Is(got, o) != errors.Is(k.said, o) {
						t.Errorf("%T: %v is %v", k.said, got, o)
					}
				}
			}
		}
	}
	d.err = nil
}
