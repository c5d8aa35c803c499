// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

var background = context.Background()

// world is one store with two participants. The first reaches it through link.
type world struct {
	link         *drivertest.Faulty
	locks, other *pawl.Client
}

// inWorld runs f in a bubble of fake time.
func inWorld(t *testing.T, f func(t *testing.T, w world)) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		link := drivertest.NewFaulty(s.Participant())
		f(t, world{link, open(t, link), open(t, s.Participant())})
	})
}

func open(t *testing.T, d driver.Store) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// take has the other one hold name.
func (w world) take(t *testing.T, name string) *pawl.Lease {
	t.Helper()
	l, err := w.other.TryAcquire(background, name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// breakLease ends whatever lease there is on name.
func (w world) breakLease(t *testing.T, name string) {
	t.Helper()
	info, err := w.other.Inspect(background, name)
	if err == nil && len(info.Holders) == 0 {
		err = errors.New("nobody holds it")
	}
	if err == nil {
		err = w.other.Break(background, name, info.Holders[0].Lease, "a test")
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (w world) wantFree(t *testing.T, name string) {
	t.Helper()
	l, err := w.other.TryAcquire(background, name)
	if err != nil {
		t.Fatalf("%q is not free: %v", name, err)
	}
	give(t, l)
}

func (w world) wantHeld(t *testing.T, name string) {
	t.Helper()
	l, err := w.other.TryAcquire(background, name)
	if !errors.Is(err, pawl.ErrHeld) {
		t.Fatalf("%q is free (%v, %v), want it held", name, l, err)
	}
}

func give(t *testing.T, l *pawl.Lease) {
	t.Helper()
	if err := l.Release(background); err != nil {
		t.Fatal(err)
	}
}

// wantIs checks that err is each of targets, or nil if the target is nil.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("error is %v, want %v", err, target)
		}
	}
}

// reports collects what an adapter tells.
type reports struct {
	mu   sync.Mutex
	name string
	errs []error
}

func (r *reports) tell(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.errs = name, append(r.errs, err)
}

// take returns the only error that was told since, or nil.
func (r *reports) take(t *testing.T) error {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := r.errs
	r.errs = nil
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	t.Fatalf("told %d errors: %v", len(errs), errs)
	return nil
}

const soon = time.Second // less than the TTL of these tests
