// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// A writer goes on as a reader of what it has written, and lets others read.
func ExampleLease_Downgrade() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	writer, err := locks.Acquire(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Release(ctx)
	_, err = locks.TryAcquire(ctx, "report", pawl.Shared())
	fmt.Println("a reader beside the writer:", errors.Is(err, pawl.ErrHeld))

	own, err := writer.Downgrade(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer own.Release(ctx)
	reader, err := locks.TryAcquire(ctx, "report", pawl.Shared())
	fmt.Println("a reader beside a reader:", err)
	fmt.Println("tokens grow:", writer.Token() < own.Token(), own.Token() < reader.Token(), reader.Release(ctx))
	// Output:
	// a reader beside the writer: true
	// a reader beside a reader: <nil>
	// tokens grow: true true <nil>
}

// Two at a time, wherever they are.
func ExampleSlots() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	for range 3 {
		lease, err := locks.TryAcquire(ctx, "crawler", pawl.Slots(2))
		if errors.Is(err, pawl.ErrHeld) {
			fmt.Println("both slots are taken")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Release(ctx)
		fmt.Println("crawling")
	}
	_, err = locks.TryAcquire(ctx, "crawler", pawl.Slots(5))
	fmt.Println(err)
	// Output:
	// crawling
	// crawling
	// both slots are taken
	// pawl: try "crawler": its holders share 2 slots, and one of 5 was asked for: use the same number everywhere
}

// A function that needs the lock may be called by one that has it.
func ExampleReentrant() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	post := func(ctx context.Context) error {
		return locks.Do(ctx, "account/7", func(ctx context.Context, lease *pawl.Lease) error {
			fmt.Println("held", lease.Holds(), "times")
			return nil
		}, pawl.Reentrant())
	}
	err = locks.Do(context.Background(), "account/7", func(ctx context.Context, lease *pawl.Lease) error {
		return post(ctx) // the context tells that we have it
	})
	fmt.Println(err)
	// Output:
	// held 2 times
	// <nil>
}

// Both accounts or none; two transfers in opposite directions cannot deadlock.
func ExampleClient_AcquireAll() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	both, err := locks.AcquireAll(ctx, []string{"account/7", "account/3"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := both.Context(ctx) // ends if either is lost
	defer cancel()
	fmt.Println(both.Names(), both.Lease("account/3").Token(), ctx.Err())
	fmt.Println(both.Release(ctx))
	// Output:
	// [account/3 account/7] 1 <nil>
	// <nil>
}

// One scheduler at a time, wherever this runs.
func ExampleClient_Elect() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	ctx, stop := context.WithCancel(context.Background())
	err = locks.Elect(ctx, "scheduler", func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("leading with token", lease.Token())
		stop()       // a real one is stopped from outside
		<-ctx.Done() // or when it is not the leader any more
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// leading with token 1
	// context canceled
}
