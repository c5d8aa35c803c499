// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

var clientSetTests = []Test{
	{Name: "sets-of-names-are-taken-without-deadlock-and-leave-nothing", run: clientSets},
}

const (
	setClients = 20
	setNames   = 10
)

// clientSets has many clients take three of ten names at a time, in any order. No
// client may wait for ever, and in the end nothing may be left in the store.
func clientSets(e *env) {
	var names []string
	var seen []*witness
	for i := range setNames {
		names = append(names, e.name(fmt.Sprint("account/", i)))
		seen = append(seen, &witness{e: e})
	}
	var all sync.WaitGroup
	var taken [setClients]int
	var clients []*pawl.Client
	for range setClients {
		clients = append(clients, e.client())
	}
	end := driver.Now().Add(e.setTime())
	for i, c := range clients {
		all.Go(func() {
			// A client that is late still gets one set.
			for taken[i] == 0 || driver.Now() < end {
				three := rand.Perm(setNames)[:3]
				g, err := c.AcquireAll(e.ctx, []string{names[three[0]], names[three[1]], names[three[2]]})
				if err != nil {
					e.Errorf("AcquireAll of client %d, after %d sets = %v", i, taken[i], err)
					return
				}
				for _, n := range three {
					seen[n].saw(g.Lease(names[n]))
				}
				time.Sleep(rand.N(2 * time.Millisecond))
				// On a busy machine a lease may be lost, or an answer come too late.
				if err := g.Release(e.ctx); err != nil && (e.fake() || !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUncertain)) {
					e.Errorf("Release = %v", err)
				}
				taken[i]++
			}
		})
	}
	all.Wait()
	e.Logf("sets taken by each client: %d", taken)
	e.nothingLeft(names)
}

// setTime is the time for which the clients go on.
func (e *env) setTime() time.Duration {
	if s := os.Getenv("DRIVERTEST_SETS"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			e.Fatalf("DRIVERTEST_SETS: %v", err)
		}
		return d
	}
	if e.fake() {
		return 100 * time.Millisecond
	}
	return time.Second
}

// nothingLeft checks that nobody holds any of names or waits for it, and that the
// store keeps nothing of them.
func (e *env) nothingLeft(names []string) {
	e.Helper()
	d := e.open()
	if in, ok := d.(driver.Inspector); ok {
		left, err := in.List(e.ctx, e.prefix)
		if err != nil || len(left) > 0 {
			e.Errorf("List = %v, %v; want nothing", left, err)
		}
	}
	for _, name := range names {
		e.free(d, name)
	}
	if e.store.Left == nil {
		return
	}
	e.eventually(e.soon(), func() error {
		if left := e.store.Left(e.TB, e.prefix); len(left) > 0 {
			return fmt.Errorf("the store keeps %q", left)
		}
		return nil
	})
}
