// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/memlock"
)

// Code that asks for a sync.Locker gets one that reaches across machines.
func ExampleMutex() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	update := func(l sync.Locker, work func()) {
		l.Lock()
		defer l.Unlock()
		work()
	}
	m := &adapt.Mutex{Locks: locks, Name: "index"}
	update(m, func() { fmt.Println("updating with token", m.Lease().Token()) })

	defer func() {
		err, _ := recover().(error)
		fmt.Println("lost:", errors.Is(err, pawl.ErrLost))
	}()
	update(m, func() {
		locks.Break(context.Background(), "index", m.Lease().ID(), "maintenance")
	})
	fmt.Println("not reached: Unlock panics after a loss")
	// Output:
	// updating with token 1
	// lost: true
}

// Two schedulers want to run one job. In a program the type argument is gocron.Lock,
// and gocron calls Lock and Unlock.
func ExampleGocronLocker() {
	ctx := context.Background()
	var store memlock.Store // the store that the machines share
	schedule := func() func() {
		locks, err := store.Open(nil)
		if err != nil {
			log.Fatal(err)
		}
		locker := &adapt.GocronLocker[interface {
			Unlock(context.Context) error
		}]{Locks: locks, Prefix: "billing/", MinHold: 5 * time.Second}
		lock, err := locker.Lock(ctx, "main.sendInvoices")
		if err != nil {
			fmt.Println("skipped, held by another:", errors.Is(err, pawl.ErrHeld))
			return func() { locks.Close() }
		}
		fmt.Println("sending invoices")
		lock.Unlock(ctx) // MinHold goes on
		return func() { locks.Close() }
	}
	defer schedule()()
	defer schedule()()
	// Output:
	// sending invoices
	// skipped, held by another: true
}

// One of several schedulers runs the jobs.
func ExampleElector() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	leader := &adapt.Elector{Locks: locks, Name: "scheduler"}
	leader.Start()
	for leader.IsLeader(ctx) != nil { // gocron asks before each run
		time.Sleep(time.Millisecond)
	}
	fmt.Println("leading with token", leader.Lease().Token())
	fmt.Println(leader.Close())
	fmt.Println(leader.IsLeader(ctx))
	// Output:
	// leading with token 1
	// <nil>
	// adapt: "scheduler": not the leader
}

// A job whose context ends with the lease. Give it to cron.Cron.AddJob.
func ExampleCronJob() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	job := &adapt.CronJob{
		Locks:  locks,
		Name:   "report",
		Report: func(name string, err error) { fmt.Println("skipped, held by another:", errors.Is(err, pawl.ErrHeld)) },
	}
	job.Do = func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("reporting with token", lease.Token())
		job.Run() // the same job on another machine, at this time
		return ctx.Err()
	}
	job.Run()
	// Output:
	// reporting with token 1
	// skipped, held by another: true
}

// A job that exists. In a program the type argument is cron.Job, and the wrapper goes
// to cron.NewChain.
func ExampleCronWrapper() {
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	wrap := adapt.CronWrapper[interface{ Run() }](adapt.CronJob{Locks: locks, Name: "sweep"})
	wrap(jobFunc(func() {
		info, err := locks.Inspect(context.Background(), "sweep")
		fmt.Println("sweeping under", len(info.Holders), "lease", err)
	})).Run()
	// Output:
	// sweeping under 1 lease <nil>
}

// What certmagic calls while it gets a certificate.
func ExampleCertMagicLocker() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	storage := &adapt.CertMagicLocker{Locks: locks, Prefix: "tls/"}
	fmt.Println(storage.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.TryLock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.RenewLockLease(ctx, "issue_cert_example.com", time.Hour))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
	// <nil>
	// pawl: release "tls/issue_cert_example.com": it is not locked here: unlock once for each lock: lease released
}

// Goose calls Lock before it migrates and Unlock after. Give it to goose.WithLocker.
func ExampleGooseLocker() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	locker := &adapt.GooseLocker{Locks: locks, Name: "migrate/billing"}
	fmt.Println(locker.Lock(ctx, nil))

	late, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	fmt.Println(locker.Lock(late, nil))
	fmt.Println(locker.Unlock(ctx, nil))
	// Output:
	// <nil>
	// context deadline exceeded
	// <nil>
}
