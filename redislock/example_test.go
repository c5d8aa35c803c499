// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock"
)

// One Redis server, or the cluster or the sentinels behind an address.
func Example() {
	ctx := context.Background()
	locks, err := redislock.Open(ctx, "redis://localhost:6379", nil)
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

// Programs that lock the keys job:NAME with redsync, redis-py or SET NX PX, and this one, exclude
// each other.
func ExampleOptions_pattern() {
	ctx := context.Background()
	locks, err := redislock.Open(ctx, "redis://localhost:6379", &redislock.Options{Pattern: "job:*"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Acquire(ctx, "nightly") // job:nightly
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
}
