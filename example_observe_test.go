// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// The leader tells its address, and others follow whoever leads.
func ExampleClient_Observe() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	leads := make(chan struct{})
	go locks.Elect(ctx, "scheduler", func(ctx context.Context, _ *pawl.Lease) error {
		close(leads)
		<-ctx.Done()
		return ctx.Err()
	}, pawl.Why("http://10.0.0.7:8080"))
	<-leads

	for leader, err := range locks.Observe(ctx, "scheduler") {
		switch {
		case err != nil:
			fmt.Println(err) // and it goes on, if the store is only away
		case leader.Lease == "":
			fmt.Println("nobody leads")
		default:
			fmt.Println("the leader is at", leader.Why)
			cancel() // which ends the loop
		}
	}
	// Output: the leader is at http://10.0.0.7:8080
}
