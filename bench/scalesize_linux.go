// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

const (
	sizeClients = 100
	sizeLeases  = 100 // of each client
	sizeTTL     = 9 * time.Second
	sizeFor     = 12 * time.Second
)

// sizes measures what a client, a lease, a waiter and a name take of a server's memory, and
// what a renewal costs.
func sizes(scheme string, w *world) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	size := func() float64 {
		if n := w.info("memory", "used_memory"); n > 0 {
			return n
		}
		return w.resident()
	}
	short := *w
	short.TTL = sizeTTL
	before := size()
	clients := make([]*pawl.Client, sizeClients)
	for i := range clients {
		l, err := contenders[ofStore[scheme].contender].open(ctx, &short, seat{0, 1})
		if err != nil {
			return err
		}
		defer l.close()
		clients[i] = l.(pawlClient).c
	}
	// What a client needs, it makes at its first waiter.
	held, err := clients[0].Acquire(ctx, "size-held")
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	wait := func(n int) (stop func()) {
		waiting, cancel := context.WithCancel(ctx)
		for i := range n {
			for _, c := range clients[1:] {
				all.Go(func() { _, _ = c.Acquire(waiting, "size-held"+strconv.Itoa(i)) })
			}
		}
		time.Sleep(2 * time.Second)
		return func() { cancel(); all.Wait() }
	}
	var more []*pawl.Lease
	for i := range 10 {
		l, err := clients[0].Acquire(ctx, "size-held"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		more = append(more, l)
	}
	wait(1)()
	client := (size() - before) / sizeClients
	before = size()
	stop := wait(10)
	waiter := (size() - before) / float64(10*(sizeClients-1))
	stop()
	for _, l := range append(more, held) {
		_ = l.Release(ctx)
	}

	before = size()
	var leases []*pawl.Lease
	for i, c := range clients {
		some, err := acquireAll(c, "size-"+strconv.Itoa(i), sizeLeases)
		if err != nil {
			return err
		}
		leases = append(leases, some...)
	}
	lease := (size() - before) / float64(len(leases))
	server, bytes := w.exact(), w.traffic()
	time.Sleep(sizeFor)
	renewals := float64(len(leases)) * 3 * sizeFor.Seconds() / sizeTTL.Seconds()
	server, bytes = w.exact()-server, w.traffic()-bytes
	for _, l := range leases {
		if err := l.Err(); err != nil {
			fmt.Printf("  a lease was lost, so a renewal is not what it should be: %v\n", err)
			break
		}
	}
	for _, l := range leases {
		_ = l.Release(ctx)
	}
	known := (size() - before) / float64(len(leases))
	fmt.Printf("  a client %.0f bytes, a waiter %.0f, a lease %.0f, a name that is known %.0f; a renewal %.1f µs of the server, %.0f bytes\n",
		client, waiter, lease, known, server.Seconds()/renewals*1e6, bytes/renewals)
	return nil
}
