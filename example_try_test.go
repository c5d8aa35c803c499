// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

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
