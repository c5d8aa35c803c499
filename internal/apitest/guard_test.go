// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"errors"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// TestGuardNeedsADatabase: what guards nothing says so.
func TestGuardNeedsADatabase(t *testing.T) {
	locks, err := memlock.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Guard(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Guard = %v; want ErrUnsupported", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lease.Guard(t.Context(), nil); !errors.Is(err, pawl.ErrReleased) {
		t.Errorf("Guard of a lease that was released = %v; want ErrReleased", err)
	}
}
