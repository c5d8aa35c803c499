// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// Waiting is a call of Acquire in a goroutine of its own.
type Waiting struct {
	Done  chan struct{} // closed when the call has returned; the fields below are set before
	Lease *participant.Lease
	Err   error
	At    driver.Instant // when the call returned

	cancel context.CancelFunc
}

// Wait begins a call of Acquire and returns when joined says that it is in the queue.
func Wait(t testing.TB, p *participant.Participant, req *driver.Request, joined func() bool) *Waiting {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &Waiting{Done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(w.Done)
		w.Lease, w.Err = p.Acquire(ctx, req)
		w.At = driver.Now()
	}()
	t.Cleanup(w.GiveUp)
	if !servers.Eventually(servers.Patience, joined) {
		t.Fatal("the waiter does not come into the queue")
	}
	return w
}

// GiveUp cancels the call and waits until it has returned.
func (w *Waiting) GiveUp() {
	w.cancel()
	<-w.Done
}

// Waits reports whether the call has not returned yet.
func (w *Waiting) Waits() bool {
	select {
	case <-w.Done:
		return false
	default:
		return true
	}
}

// Granted returns the lease, which the call must return within d.
func (w *Waiting) Granted(t testing.TB, d time.Duration) *participant.Lease {
	t.Helper()
	select {
	case <-w.Done:
	case <-time.After(d):
		t.Fatalf("Acquire still waits after %v", d)
	}
	if w.Err != nil {
		t.Fatalf("Acquire = %v; want a grant", w.Err)
	}
	return w.Lease
}

// Receive returns what comes from c, or from its end. If nothing comes, the test fails with the text missing.
func Receive[T any](t testing.TB, c <-chan T, missing string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(servers.Patience):
		t.Fatal(missing)
	}
	return v
}

// Until waits until f returns true. If it does not, the test fails with the text missing.
func Until(t testing.TB, missing string, f func() bool) {
	t.Helper()
	if !servers.Eventually(servers.Patience, f) {
		t.Fatal(missing)
	}
}
