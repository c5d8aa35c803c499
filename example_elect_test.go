// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// Lead until ctx ends, whenever nobody else does.
func ExampleClient_Elect() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	err = locks.Elect(ctx, "scheduler", func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("leading, token", lease.Token())
		cancel()     // somebody wants us to stop
		<-ctx.Done() // ends with the lease, too: then Elect calls again, in our turn
		return nil
	})
	fmt.Println("resigned:", err)
	// Output:
	// leading, token 1
	// resigned: <nil>
}

// Move money between two accounts: both or neither, in whatever order others want them.
func ExampleClient_AcquireAll() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	leases, err := locks.AcquireAll(ctx, []string{"account/2", "account/1"})
	if err != nil {
		log.Fatal(err)
	}
	defer leases.Release(ctx)
	for _, name := range leases.Names() {
		fmt.Println(name, "token", leases.Lease(name).Token())
	}
	// Output:
	// account/1 token 1
	// account/2 token 1
}
