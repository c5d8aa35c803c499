// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// lowered has the store grant req in place of g.
func lowered(t testing.TB, g driver.Grant, req *driver.Request) driver.Grant {
	t.Helper()
	shared, err := g.(driver.Downgrader).Downgrade(t.Context(), reading(req))
	if err != nil {
		t.Fatalf("Downgrade = %v; want nil", err)
	}
	return shared
}

// TestDowngradeWithoutAnswer: the answer to Downgrade is lost. Whether the store has carried it out or not, the
// release of both leases, in any order, frees the lock, and a request that comes after that changes nothing.
func TestDowngradeWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	for _, done := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			name := fmt.Sprint("deploy", done, first)
			g := take(t, a, long(name))
			req := reading(long(name))
			lost := a.attempt(req)
			lost.doubt = true
			asks := func() int64 {
				reply, _, _, fail := g.(*grant).lower(t.Context(), lost)
				if fail != nil {
					t.Fatal(fail.Err)
				}
				return epoch.Code(reply)
			}
			if done && asks() != 1 {
				t.Error("it is not carried out")
			}
			left, _ := lost.undo(t.Context(), &conn.Failure{Err: driver.ErrUncertain, Maybe: true})
			both := []driver.Grant{g, left}
			if first {
				slices.Reverse(both)
			}
			for _, g := range both {
				if err := g.Release(t.Context()); err != nil && !errors.Is(err, driver.ErrLost) {
					t.Errorf("Release = %v; want nil or ErrLost", err)
				}
				if asks() == 1 {
					t.Error("it is carried out after a release")
				}
			}
			release(t, take(t, b, long(name)))
		}
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
	if _, err := g.Downgrade(t.Context(), reading(long("deploy"))); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Downgrade = %v; want ErrLost", err)
	}
	if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want ErrLost", err)
	}
	if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Release = %v; want ErrLost", err)
	}
}
