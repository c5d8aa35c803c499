// SPDX-License-Identifier: Apache-2.0

package etcdlock_test

import (
	"context"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/etcdlock"
)

// A cluster of etcd.
func Example() {
	ctx := context.Background()
	locks, err := etcdlock.Open(ctx, "etcd://a:2379,b:2379,c:2379/locks/", nil)
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
