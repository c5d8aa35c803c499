// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"
)

// turns lets two clients of this process acquire one lock in turn, burst times each. It
// measures the rate, because with a kept lease only the first acquisition of a burst sends
// requests, and a median would hide that.
func turns(burst int) func(*run, string, string) (*sample, error) {
	return func(r *run, contender, name string) (*sample, error) {
		return r.two(contender, func(clients []locker, i int) (locker, string, bool) {
			return clients[i/burst%2], name, true
		})
	}
}

// first measures the acquisition of a lock that the other client has just released, and may have
// kept. It uses a new name each time, because a client stops keeping a name that others want.
func (r *run) first(contender, name string) (*sample, error) {
	return r.two(contender, func(clients []locker, i int) (locker, string, bool) {
		return clients[i%2], name + "-" + strconv.Itoa(i/2), i%2 == 1
	})
}

// two acquires and releases locks with two clients. next chooses the client and the name
// for each step, and says whether the step counts.
func (r *run) two(contender string, next func(clients []locker, i int) (l locker, name string, counts bool)) (s *sample, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	both, err := sit(ctx, r.world, load{Contender: contender, Procs: 1, Seats: 2, Apart: true})
	if err != nil {
		return nil, err
	}
	defer both.close()
	err = r.costs(contender, &s, func() (*sample, error) {
		s := &sample{Elapsed: r.cell}
		defer s.Times.pack()
		cpu := ownCPU()
		start := nano() + int64(r.cell/8)
		for i := 0; ; i++ {
			l, name, counts := next(both.lockers, i)
			asked := nano()
			if asked >= start+int64(r.cell) {
				s.Client = ownCPU() - cpu
				return s, nil
			}
			unlock, _, err := l.lock(ctx, name)
			if err != nil {
				return nil, err
			}
			if err := unlock(); err != nil {
				return nil, err
			}
			took := nano() - asked
			s.All++
			if counts && asked >= start {
				s.Ops++
				s.Times.add(took)
				s.Longest = max(s.Longest, took)
			}
		}
	})
	return s, err
}
