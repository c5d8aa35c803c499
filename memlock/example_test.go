// SPDX-License-Identifier: Apache-2.0

package memlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// Two processes that share a store are two clients of one Store.
func ExampleStore_Open() {
	ctx := context.Background()
	var store memlock.Store
	alice, err := store.Open(&pawl.Options{Holder: pawl.Holder{Who: "alice"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer alice.Close()
	bob, err := store.Open(&pawl.Options{Holder: pawl.Holder{Who: "bob"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bob.Close()

	lease, err := alice.TryAcquire(ctx, "deploy")
	fmt.Println("alice has token", lease.Token(), err)
	_, err = bob.TryAcquire(ctx, "deploy")
	fmt.Println("bob: held:", errors.Is(err, pawl.ErrHeld))

	lease.Release(ctx)
	lease, err = bob.TryAcquire(ctx, "deploy")
	fmt.Println("bob has token", lease.Token(), err)

	// Output:
	// alice has token 1 <nil>
	// bob: held: true
	// bob has token 2 <nil>
}

// TestCrashedHolder is how a user's test can see a lease expire: in a bubble the
// half minute takes no time.
func TestCrashedHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memlock.Store
		d := store.Participant()
		dead, err := pawl.New(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := dead.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		store.Crash(d)

		locks, err := store.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		next, err := locks.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(lease.Err(), pawl.ErrLost) {
			t.Errorf("the dead client's lease: %v; want ErrLost before the next begins", lease.Err())
		}
		if got := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); got > pawl.DefaultTTL+time.Second {
			t.Errorf("the next holder waited for %v", got)
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
		dead.Close()
	})
}
