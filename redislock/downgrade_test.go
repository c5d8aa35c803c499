// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestDowngradeWithoutAnswer: the answer to Downgrade is lost. Whether the store has done it or not, the
// lease can be renewed, downgraded again, and released.
func TestDowngradeWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprint("done ", done), func(t *testing.T) {
			name := fmt.Sprint("deploy", done)
			g := take(t, a, long(name))
			if done {
				if err := g.(driver.Downgrader).Downgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
				// As a late one finds it, of which nobody knows.
				if err := g.(driver.Downgrader).Downgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				g.(*grant).kind = shared
			}
			if _, err := g.Renew(t.Context(), time.Minute); err != nil {
				t.Errorf("Renew = %v; want nil", err)
			}
			if err := g.(driver.Downgrader).Downgrade(t.Context()); err != nil {
				t.Errorf("Downgrade again = %v; want nil", err)
			}
			reader := take(t, b, reading(long(name)))
			if reader.Token() <= g.Token() {
				t.Errorf("token %d after %d", reader.Token(), g.Token())
			}
			release(t, g)
			heldBy(t, a, long(name), 1)
			release(t, reader)
			release(t, take(t, a, long(name)))
		})
	}
}

// TestDowngradeOfALostLease: once Downgrade has said that the lease is lost, so does all
// else.
func TestDowngradeOfALostLease(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	g := take(t, s, long("deploy")).(*grant)
	r.do("del", lockKey(defaultPrefix, "deploy"))
	if err := g.Downgrade(t.Context()); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Downgrade = %v; want ErrLost", err)
	}
	if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want ErrLost", err)
	}
	if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Release = %v; want ErrLost", err)
	}
}
