// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// The server keeps the name of a job that was short for its TTL when its client is gone, also
// if the job had waited for the name: what a hand-off gives would be over in a second. With a TTL
// shorter than MinHold, Close makes it keep the name for that.
func TestMinHoldOutlivesTheClient(t *testing.T) {
	t.Parallel()
	url := servers.StoreURL(startServer(t).Redis)
	run := func(ttl, minHold time.Duration) {
		t.Helper()
		c, err := pawl.Open(t.Context(), url, &pawl.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		lease, err := c.Acquire(t.Context(), "nightly", pawl.MinHold(minHold))
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	run(time.Second, 900*time.Millisecond) // the next one waits for its TTL
	began := time.Now()
	run(5*time.Second, 19900*time.Millisecond)
	if waited := time.Since(began); waited < 500*time.Millisecond {
		t.Errorf("the name was free after %v", waited)
	}
	other, err := pawl.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var held *pawl.HeldError
	if _, err = other.TryAcquire(t.Context(), "nightly"); !errors.As(err, &held) {
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	if left := time.Until(held.Info.Holders[0].Expires); left < 18*time.Second {
		t.Errorf("the server keeps the name for %v, want about 20s", left)
	}
}
