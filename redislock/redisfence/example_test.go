// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisfence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/redislock/redisfence"
)

// A new holder raises the token, reads and writes. Whoever had the lease before
// it is refused then. In a program, memlock is one of the other stores.
func Example() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redisfence.Address()}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	late, err := locks.Acquire(ctx, "total")
	if err != nil {
		log.Fatal(err)
	}
	late.Release(ctx) // or it ends while its holder is paused
	lease, err := locks.Acquire(ctx, "total")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	if err := redisfence.Install(ctx, client, "total", lease.Token()); err != nil {
		log.Fatal(err)
	}
	total, err := client.Do(ctx, client.B().Get().Key("total").Build()).AsInt64()
	fmt.Println("it was", total, rueidis.IsRedisNil(err))
	fmt.Println(redisfence.Set(ctx, client, "total", "42", lease.Token()))
	fmt.Println(redisfence.Set(ctx, client, "total", "41", late.Token()))

	// Output:
	// it was 0 true
	// <nil>
	// fence: token 1 is older than 2, which resource "total" has seen: the lease it came from has ended
}

// A script of one's own begins with Lua.
func ExampleError() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redisfence.Address()}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	push := rueidis.NewLuaScript(redisfence.Lua + `
		local stale = fence(KEYS[1], ARGV[1])
		if stale then return stale end
		return redis.call('RPUSH', KEYS[2], ARGV[2])`)
	guard, err := redisfence.GuardKey("jobs")
	if err != nil {
		log.Fatal(err)
	}
	r := push.Exec(ctx, client, []string{guard, "jobs"}, []string{redisfence.Arg(34), "job 1"})
	fmt.Println(redisfence.Error(r.Error(), "jobs", 34))
	r = push.Exec(ctx, client, []string{guard, "jobs"}, []string{redisfence.Arg(33), "job 1"})
	fmt.Println(redisfence.Error(r.Error(), "jobs", 33))

	// Output:
	// <nil>
	// fence: token 33 is older than 34, which resource "jobs" has seen: the lease it came from has ended
}
