// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock"
)

// TestMiniredis: tests of programs that use miniredis, which stands for Redis in the test's own
// process, have locks there with Efficiency. What it lacks for the others is told.
func TestMiniredis(t *testing.T) {
	t.Run("efficiency", func(t *testing.T) {
		m, opts := miniredis.RunT(t), &redislock.Options{Mode: redislock.Efficiency}
		locks, other := openMini(t, m, opts), openMini(t, m, opts)
		lease, err := locks.TryAcquire(t.Context(), "deploy", pawl.Why("release 7"))
		if err != nil {
			t.Fatal(err)
		}
		var held *pawl.HeldError
		if _, err := other.TryAcquire(t.Context(), "deploy"); !errors.As(err, &held) || held.Info.Holders[0].Why != "release 7" {
			t.Errorf("TryAcquire of another client = %v; want ErrHeld with the holder", err)
		}
		if err := lease.Extend(t.Context(), 20*time.Second); err != nil {
			t.Errorf("Extend = %v", err)
		}
		next := make(chan error, 1)
		go func() {
			lease, err := other.Acquire(t.Context(), "deploy")
			if err == nil {
				err = lease.Release(t.Context())
			}
			next <- err
		}()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err) // in miniredis time stands still: nothing expires
		}
		if err := <-next; err != nil {
			t.Errorf("the waiter: %v", err)
		}

		if lease, err = locks.TryAcquire(t.Context(), "deploy"); err != nil {
			t.Fatal(err)
		}
		if err := other.Break(t.Context(), "deploy", lease.ID(), "it is needed"); err != nil {
			t.Errorf("Break = %v", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("Release of what was broken = %v; want ErrLost", err)
		}
	})
	t.Run("guarded", func(t *testing.T) {
		_, err := redislock.Open(t.Context(), "redis://"+miniredis.RunT(t).Addr(), nil)
		if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "INFO") || !strings.Contains(err.Error(), "allow_unguarded") {
			t.Errorf("Open = %v; want an error that names INFO, and what to do", err)
		}
	})
	t.Run("unguarded", func(t *testing.T) {
		locks := openMini(t, miniredis.RunT(t), &redislock.Options{AllowUnguarded: true})
		var err error
		for began := time.Now(); err == nil && time.Since(began) < 10*time.Second; { // until it has subscribed
			var lease *pawl.Lease
			if lease, err = locks.TryAcquire(t.Context(), "deploy"); err == nil {
				_ = lease.Release(t.Context())
			}
		}
		if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "SUBSCRIBE") || !strings.Contains(err.Error(), "mode=efficiency") {
			t.Errorf("TryAcquire = %v; want an error that names SUBSCRIBE, and what to do", err)
		}
	})
}

func openMini(t *testing.T, m *miniredis.Miniredis, opts *redislock.Options) *pawl.Client {
	t.Helper()
	locks, err := redislock.Open(t.Context(), "redis://"+m.Addr(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}
