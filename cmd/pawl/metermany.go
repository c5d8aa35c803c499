// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

const benchClients = 16

// apart lets clients of their own take a lock each: a server has a request of its own for
// each of them, as from many machines.
func (m *meter) apart(ctx context.Context) ([]time.Duration, error) {
	return m.side(ctx, len(m.clients), func(ctx context.Context, i int) ([]time.Duration, error) {
		one := &meter{store: m.clients[i], each: m.each}
		return one.pair(ctx, strconv.Itoa(i+1))
	})
}

// connect opens the clients, and makes their connections.
func (m *meter) connect(ctx context.Context, open func() (*store, error)) error {
	for range benchClients {
		s, err := open()
		if err != nil {
			return err
		}
		m.clients = append(m.clients, s)
		if _, err := s.Inspect(ctx, benchPrefix+"1"); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) close() {
	for _, s := range m.clients {
		s.Close()
	}
}

// crossings lets two clients take turns with many locks at the same time, and returns what
// a turn took, from the call of Acquire on.
func (m *meter) crossings(ctx context.Context) ([]time.Duration, error) {
	turns := make([]turn, benchMany)
	return m.side(ctx, 2*benchMany, func(ctx context.Context, i int) ([]time.Duration, error) {
		return turns[i/2].take(ctx, []*store{m.store, m.other}[i%2], i, m.each)
	})
}

// turn is one lock that two goroutines of different clients want.
type turn struct {
	mu   sync.Mutex // for a store that is broken
	last int        // who had it before, plus one
}

func (t *turn) take(ctx context.Context, s *store, me int, each time.Duration) (list []time.Duration, err error) {
	for end := time.Now().Add(each); ; {
		began := time.Now()
		if began.After(end) && len(list) > 0 {
			return list, nil
		}
		lease, err := s.Acquire(ctx, benchPrefix+"turn-"+strconv.Itoa(me/2+1), pawl.Why("pawl bench"))
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		if t.last != me+1 {
			list = append(list, time.Since(began))
		}
		t.last = me + 1
		t.mu.Unlock()
		if err := lease.Release(context.Background()); err != nil {
			return nil, err
		}
	}
}

// side runs n of f at the same time, and joins what they return.
func (m *meter) side(ctx context.Context, n int, f func(context.Context, int) ([]time.Duration, error)) (list []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			l, e := f(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			list = append(list, l...)
			if e != nil && err == nil {
				err = e
				cancel() // the others would fail in the same way
			}
		})
	}
	all.Wait()
	return list, err
}
