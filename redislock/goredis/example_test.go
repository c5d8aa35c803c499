// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock/goredis"
)

// The client that the program has already says where the servers are, and who it is there.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	locks, err := goredis.New(ctx, rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "nightly", func(ctx context.Context, lease *pawl.Lease) error {
		return rdb.Set(ctx, "last", uint64(lease.Token()), 0).Err()
	})
	if err != nil {
		log.Fatal(err)
	}
}
