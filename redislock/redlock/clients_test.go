// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
)

// TestOwnClients: clients that the caller has made are used, beside those of Open, and not
// closed.
func TestOwnClients(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	var clients []rueidis.Client
	for _, s := range f {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, AlwaysPipelining: true, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	locks, err := New(t.Context(), clients, opts)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := locks.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.TryAcquire(t.Context(), name); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("TryAcquire of a client of Open = %v; want ErrHeld", err)
	}
	release(t, lease)
	if err := locks.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range clients {
		if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
			t.Errorf("closing the locks has closed a client: %v", err)
		}
	}
	if _, err := New(t.Context(), clients[:2], opts); err == nil {
		t.Error("two masters are accepted")
	}
}
