// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

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

// TryDo is for work that somebody else does otherwise. What the function calls finds the lease
// in its context, to report that the work goes on.
func ExampleClient_TryDo() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	next := func(ctx context.Context, i int) error {
		lease, _ := pawl.LeaseFrom(ctx)
		fmt.Println("part", i)
		return lease.Progress()
	}
	err = locks.TryDo(context.Background(), "nightly", func(ctx context.Context, _ *pawl.Lease) error {
		for i := range 3 {
			if err := next(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}, pawl.ProgressEvery(10*time.Minute))
	if errors.Is(err, pawl.ErrHeld) {
		fmt.Println("somebody does it")
	}
	// Output:
	// part 0
	// part 1
	// part 2
}

// Do the nightly job only if nobody does it already.
func ExampleClient_TryAcquire() {
	locks, err := memlock.Open(&pawl.Options{Holder: pawl.Holder{Who: "cron on db-2", PID: 812, Command: "backup"}})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx := context.Background()

	lease, err := locks.TryAcquire(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	_, err = locks.TryAcquire(ctx, "nightly")
	var held *pawl.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Info.Holders[0].Holder)
	}
	// Output: held by cron on db-2 (pid 812, "backup")
}

// Work that is told when its lease is gone, and why.
func ExampleLease_Context() {
	store := new(memlock.Store)
	worker, err := store.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	operator, err := store.Open(&pawl.Options{Holder: pawl.Holder{Who: "bob"}})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()
	background := context.Background()

	lease, err := worker.Acquire(background, "import")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(background)
	ctx, cancel := lease.Context(background)
	defer cancel()

	if err := operator.Break(background, "import", lease.ID(), "runner died"); err != nil {
		log.Fatal(err)
	}

	<-ctx.Done()
	var lost *pawl.LostError
	if errors.As(context.Cause(ctx), &lost) {
		fmt.Printf("%s: %s\n", lost.Reason, lost.Why)
	}
	// Output: broken: runner died
}

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
