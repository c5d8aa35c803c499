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

// Work that is told when its lease is gone, and why.
func ExampleLease_Context() {
	store := new(memlock.Store)
	worker, err := store.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	operator, err := store.Open(&pawl.Options{Holder: pawl.Holder{Who: "bob"}})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()
	background := context.Background()

	lease, err := worker.Acquire(background, "import")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(background)
	ctx, cancel := lease.Context(background)
	defer cancel()

	if err := operator.Break(background, "import", lease.ID(), "runner died"); err != nil {
		log.Fatal(err)
	}

	<-ctx.Done()
	var lost *pawl.LostError
	if errors.As(context.Cause(ctx), &lost) {
		fmt.Printf("%s: %s\n", lost.Reason, lost.Why)
	}
	// Output: broken: runner died
}
