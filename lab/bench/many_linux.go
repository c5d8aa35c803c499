// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
)

const manyLeases = 100_000

// many measures a process that holds very many leases.
func (r *run) many(contender, name string) (*sample, error) {
	const length = 20 * time.Second
	w, err := spawn(&task{Do: "many", World: r.world, Contender: contender, Name: name, N: manyLeases, For: length})
	if err != nil {
		return nil, err
	}
	defer w.kill()
	var ready string
	if err := w.hear(&ready); err != nil {
		return nil, err
	}
	var s *sample
	err = r.costs(contender, &s, func() (*sample, error) {
		w.tell()
		p := new(sample)
		return p, w.hear(p)
	})
	if err != nil {
		return nil, err
	}
	s.Extra["renewals a second"] = float64(s.Requests) / length.Seconds()
	s.Extra["server, cores"] = s.Server.Seconds() / length.Seconds()
	return s, nil
}

// many acquires and holds the leases. It measures their memory and processor time, and checks that none is
// lost.
func (t *task) many() error {
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	one, err := contenders[t.Contender].open(ctx, t.World, seat{0, 1})
	if err != nil {
		return err
	}
	locks := one.(pawlClient).c
	memory, routines := used()
	leases, err := acquireAll(locks, t.Name, t.N)
	if err != nil {
		return err
	}
	after, routinesAfter := used()
	s := &sample{Ops: int64(t.N), All: int64(t.N), Elapsed: t.For, Extra: map[string]float64{
		"bytes a lease":   float64(after-memory) / float64(t.N),
		"more goroutines": float64(routinesAfter - routines),
	}}
	if err := errors.Join(say("held"), told()); err != nil {
		return err
	}
	cpu := ownCPU()
	time.Sleep(t.For)
	s.Client = ownCPU() - cpu
	s.Extra["client, cores"] = s.Client.Seconds() / t.For.Seconds()
	lost := 0
	for _, l := range leases {
		if err := l.Err(); err != nil {
			lost++
			s.Error = fmt.Sprintf("%d of %d leases lost, such as: %v", lost, t.N, err)
		}
	}
	return say(s)
}

func acquireAll(locks *pawl.Client, name string, n int) ([]*pawl.Lease, error) {
	leases := make([]*pawl.Lease, n)
	errs := make([]error, 256)
	var next atomic.Int64
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[g] == nil; i = int(next.Add(1)) - 1 {
				leases[i], errs[g] = locks.TryAcquire(context.Background(), name+"-"+strconv.Itoa(i))
			}
		})
	}
	all.Wait()
	return leases, errors.Join(errs...)
}

// used returns how many bytes of memory are in use, and how many goroutines there are.
func used() (memory uint64, goroutines int) {
	runtime.GC()
	runtime.GC() // the second collection frees objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}
