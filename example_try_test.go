// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// TryDo is for work that somebody else does otherwise. What the function calls finds the lease
// in its context, to report that the work goes on.
func ExampleClient_TryDo() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	next := func(ctx context.Context, i int) error {
		lease, _ := pawl.LeaseFrom(ctx)
		fmt.Println("part", i)
		return lease.Progress()
	}
	err = locks.TryDo(context.Background(), "nightly", func(ctx context.Context, _ *pawl.Lease) error {
		for i := range 3 {
			if err := next(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}, pawl.ProgressEvery(10*time.Minute))
	if errors.Is(err, pawl.ErrHeld) {
		fmt.Println("somebody does it")
	}
	// Output:
	// part 0
	// part 1
	// part 2
}

// Do the nightly job only if nobody does it already.
func ExampleClient_TryAcquire() {
	locks, err := memlock.Open(&pawl.Options{Holder: pawl.Holder{Who: "cron on db-2", PID: 812, Command: "backup"}})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	lease, err := locks.TryAcquire(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	_, err = locks.TryAcquire(ctx, "nightly")
	var held *pawl.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Info.Holders[0].Holder)
	}
	// Output: held by cron on db-2 (pid 812, "backup")
}
