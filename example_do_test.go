// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// Run a function while holding a name. In a program, memlock is one of the
// other stores.
func ExampleClient_Do() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Do(context.Background(), "invoice/42", func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("saving", lease.Name(), "with token", lease.Token())
		return ctx.Err() // ctx ends with the lease
	})
	fmt.Println(err)
	// Output:
	// saving invoice/42 with token 1
	// <nil>
}
