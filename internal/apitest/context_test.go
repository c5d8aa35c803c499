// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestReleaseOfAStoreThatHangs: each release ends within five seconds, and not much
// earlier, whatever others are under way and when they began.
func TestReleaseOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		c := open(t, d, nil)
		var leases []*pawl.Lease
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			leases = append(leases, acquire(t, c, name))
		}
		hangReleases(d)
		for _, l := range leases {
			go func() {
				began := time.Now()
				wantIs(t, l.Release(context.Background()), context.DeadlineExceeded)
				if took := time.Since(began); took > 5*time.Second || took < 4500*time.Millisecond {
					t.Errorf("Release took %v; want 4.5 to 5 s", took)
				}
			}()
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		set(d, &d.release, nil)
	})
}

// TestContextsOfRequests: they have the caller's values, and what is made from them
// ends with them, without a goroutine: the bubble would notice one that goes on.
func TestContextsOfRequests(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		c := open(t, d, nil)
		var made []context.Context
		look := func(ctx context.Context) {
			if ctx.Value(key{}) != "value" || ctx.Value("other") != nil {
				t.Errorf("the values of %v are not the caller's", ctx)
			}
			child, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			made = append(made, child)
		}
		d.try = func(ctx context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
			look(ctx)
			return ask()
		}
		d.release = func(ctx context.Context, ask func() (bool, error)) (bool, error) {
			look(ctx)
			return ask()
		}
		ctx := context.WithValue(context.Background(), key{}, "value")
		l, err := c.Acquire(ctx, "deploy")
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, l.Release(ctx), nil)
		for _, ctx := range made {
			if ctx.Err() != nil {
				t.Errorf("%v has ended: %v", ctx, ctx.Err())
			}
		}
		if len(made) != 2 {
			t.Fatalf("%d requests; want 2", len(made))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err := made[1].Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after 5 s the context of the release says %v", err)
		}
		c.Close()
		if err := made[0].Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("after Close the context of the acquisition says %v", err)
		}
	})
}

// TestLeaseFrom: a function that gets no lease finds it in its context.
func TestLeaseFrom(t *testing.T) {
	a, b := open(t, new(memlock.Store).Participant(), nil), open(t, new(memlock.Store).Participant(), nil)
	if l, ok := pawl.LeaseFrom(t.Context()); ok || l != nil {
		t.Errorf("LeaseFrom = %v, %v without a lease", l, ok)
	}
	err := a.Do(t.Context(), "outer", func(ctx context.Context, outer *pawl.Lease) error {
		return b.Do(ctx, "inner", func(ctx context.Context, inner *pawl.Lease) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if l, ok := pawl.LeaseFrom(ctx); !ok || l != inner {
				t.Errorf("LeaseFrom = %v, %v; want the innermost lease", l, ok)
			}
			ctx, stop := outer.Context(ctx)
			defer stop()
			if l, ok := pawl.LeaseFrom(ctx); !ok || l != outer {
				t.Errorf("LeaseFrom = %v, %v; want the lease of the last Context", l, ok)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEmptyLease: the context of an empty Lease has ended, and does not hide the lease of the context around it.
func TestEmptyLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := acquire(t, open(t, tap(new(memlock.Store)), nil), "deploy")
		ctx := under(t, outer)
		for _, l := range []*pawl.Lease{nil, {}} {
			ctx, cancel := l.Context(ctx)
			defer cancel()
			wantIs(t, context.Cause(ctx), pawl.ErrReleased)
			if found, ok := pawl.LeaseFrom(ctx); !ok || found != outer {
				t.Errorf("LeaseFrom = %v, %v; want the lease around the empty one", found, ok)
			}
			if all := pawl.LeasesFrom(ctx); len(all) != 1 || all[0] != outer {
				t.Errorf("LeasesFrom = %v; want the lease around the empty one", all)
			}
		}
		wantIs(t, outer.Release(t.Context()), nil)
	})
}
