// SPDX-License-Identifier: Apache-2.0

package zklock_test

import (
	"context"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/zklock"
)

// An ensemble of ZooKeeper.
func Example() {
	ctx := context.Background()
	locks, err := zklock.Open(ctx, "zk://a:2181,b:2181,c:2181/locks", nil)
	if err != nil {
		log.Fatal(err) // which says what to do
	}
	defer locks.Close()
	err = locks.Do(ctx, "nightly", func(ctx context.Context, lease *pawl.Lease) error {
		return report(ctx, lease.Token())
	})
	if err != nil {
		log.Fatal(err)
	}
}

// report stands for what must not be done twice at a time. It sends the token along with what it
// writes, for whoever refuses a smaller one than the last.
func report(context.Context, pawl.Token) error { return nil }
