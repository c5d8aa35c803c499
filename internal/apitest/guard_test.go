// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestGuardNeedsADatabase: what guards nothing says so.
func TestGuardNeedsADatabase(t *testing.T) {
	lease := acquire(t, open(t, new(memlock.Store).Participant(), nil), "x")
	if err := lease.Guard(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Guard = %v; want ErrUnsupported", err)
	}
	release(t, lease)
	if err := lease.Guard(t.Context(), nil); !errors.Is(err, pawl.ErrReleased) {
		t.Errorf("Guard of a lease that was released = %v; want ErrReleased", err)
	}
}

// binding is a store whose leases guard transactions and have files. Its grants have reserved tokens.
type binding struct{ *reserving }

func (binding) Guard(context.Context, driver.Ref, uint64, any, error) error { return nil }
func (binding) Files(driver.Ref) []*os.File                                 { return []*os.File{os.Stdin} }

// TestKeptByOthers: the next waiter of the client has to ask the store for a name whose lease guards a transaction, or whose
// files a child has: it would not wait for their end.
func TestKeptByOthers(t *testing.T) {
	for what, bind := range map[string]func(l *pawl.Lease) error{
		"nothing": func(*pawl.Lease) error { return nil },
		"Guard":   func(l *pawl.Lease) error { return l.Guard(t.Context(), nil) },
		"Files":   func(l *pawl.Lease) error { l.Files(); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			d := binding{reserve(new(memlock.Store), 100)}
			c := open(t, d, nil)
			l := acquire(t, c, "a")
			wait := line(t, c, 1, func(int, *pawl.Lease) {})
			if err := bind(l); err != nil {
				t.Fatal(err)
			}
			release(t, l)
			wait.Wait()
			if told := d.tries.Load() > 1; told != (what != "nothing") {
				t.Errorf("%s: %d requests for leases", what, d.tries.Load())
			}
		})
	}
}
