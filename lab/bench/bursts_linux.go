// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// bursts lets two clients of this process acquire one lock in turn, 20 times each. It
// measures the rate, because with a kept lease only the first acquisition of a burst sends
// requests, and a median would hide that.
func (r *run) bursts(contender, name string) (s *sample, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	both, err := sit(ctx, r.world, load{Contender: contender, Procs: 1, Seats: 2, Apart: true})
	if err != nil {
		return nil, err
	}
	defer both.close()
	err = r.costs(contender, &s, func() (*sample, error) {
		s := &sample{Elapsed: r.cell}
		cpu := ownCPU()
		start := nano() + int64(r.cell/8)
		for i := 0; ; i++ {
			asked := nano()
			if asked >= start+int64(r.cell) {
				s.Client = ownCPU() - cpu
				return s, nil
			}
			unlock, _, err := both.lockers[i/20%2].lock(ctx, name)
			if err != nil {
				return nil, err
			}
			if err := unlock(); err != nil {
				return nil, err
			}
			took := nano() - asked
			s.All++
			if asked >= start {
				s.Ops++
				s.Times = append(s.Times, took)
				s.Longest = max(s.Longest, took)
			}
		}
	})
	return s, err
}
