// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestRollingRestart: all nodes are restarted, empty, one after the other, while one
// client holds a lease, another one waits for it and a third one tries again and again.
// The lease goes on, with one token: the waiter takes no node that the holder has to
// get back, and what an attempt leaves at a node does not keep the holder out.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	opts := &Options{NodeTimeout: time.Second}
	opts.TTL, opts.MaxTTL = 8*time.Second, 8*time.Second
	f := startFleet(t, 3, opts)
	holder, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	waiter, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close()
	lease, err := holder.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		l, err := waiter.Acquire(ctx, name)
		if err == nil {
			l.Release(context.WithoutCancel(ctx))
		}
		waited <- err
	}()
	trier, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer trier.Close()
	trying, stop := context.WithCancel(t.Context())
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		for trying.Err() == nil {
			if l, err := trier.TryAcquire(trying, name); err == nil {
				t.Error("somebody who tries got the name while the lease was held")
				l.Release(ctx)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	for _, s := range f {
		s.restart()
		back := func() bool { return strings.HasPrefix(s.do("get", "pawl:redlock:{"+name+"}"), lease.ID()+" ") }
		if !eventually(patience, back) {
			t.Fatalf("%s did not get the lock back; the lease: %v", s.Addr, lease.Err())
		}
	}
	if err := lease.Err(); err != nil {
		t.Errorf("the lease has ended: %v", err)
	}
	select {
	case err := <-waited:
		t.Errorf("the waiter got %v while the lease was held", err)
	default:
	}
	stop()
	<-tried
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	select {
	case err := <-waited:
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
	case <-time.After(patience):
		t.Error("the waiter still waits")
	}
	cancel()
	if _, err := waiter.Acquire(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v; want the context's error", err)
	}
}
