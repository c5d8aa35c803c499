// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pawl-go/pawl"
	_ "github.com/pawl-go/pawl/memlock" // for URLs that begin with mem:
)

// The configuration says which store it is. The program imports the packages of those
// that it may be, for nothing but their schemes.
func ExampleOpen() {
	ctx := context.Background()
	locks, err := pawl.Open(ctx, cmp.Or(os.Getenv("ORDERS_LOCKS"), "mem://orders"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "invoice/42", func(context.Context, *pawl.Lease) error {
		fmt.Println("only one of us is here")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: only one of us is here
}
