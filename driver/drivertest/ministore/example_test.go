// SPDX-License-Identifier: Apache-2.0

package ministore_test

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/ministore"
)

// A client of a store of your own.
func Example() {
	table := new(ministore.Table) // the server
	locks, err := pawl.New(table.Driver(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "deploy", func(_ context.Context, lease *pawl.Lease) error {
		fmt.Println(lease.Name(), lease.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// deploy 1
	// <nil>
}
