// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// load is the work of the participants of one process in a cell: each acquires the lock,
// holds it for Hold, releases it, and repeats that until the cell is over.
type load struct {
	Contender string
	Proc      int           // number of the process, from 0
	Procs     int           // number of processes
	Seats     int           // goroutines of this process
	Own       bool          // each goroutine of the process has its own lock
	Apart     bool          // each goroutine has its own client, as if it were another program
	Hold      time.Duration // how long to hold the lock
	Name      string        // name of the lock, or prefix of the names
	Measure   measure
}

// measure says which time a cell measures.
type measure string

const (
	pair    measure = "acquire and release"
	waiting measure = "acquire"
	// Only hand-offs to another process count.
	handOff measure = "release to the next holder"
)

// seated is a load with the lockers of one process.
type seated struct {
	load
	lockers []locker // one for each seat, or one for all
}

func sit(ctx context.Context, w *world, l load) (*seated, error) {
	c := contenders[l.Contender]
	if c == nil {
		return nil, fmt.Errorf("no contender %q", l.Contender)
	}
	s := &seated{load: l}
	n := 1
	if l.Apart {
		n = l.Seats
	}
	for i := range n {
		// Adjacent seats are in different processes.
		one, err := c.open(ctx, w, seat{i*l.Procs + l.Proc, n * l.Procs})
		if err != nil {
			s.close()
			return nil, err
		}
		s.lockers = append(s.lockers, one)
	}
	return s, nil
}

func (s *seated) close() {
	for _, l := range s.lockers {
		l.close()
	}
}

// drive lets all seats work until the arena's end.
func (s *seated) drive(a *arena) *sample {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The context has no deadline, because some libraries would take their TTL from it. A
	// participant with its own lock does not wait, and ends by itself.
	over := time.Duration(a.end.Load() - nano())
	if s.Own {
		over += 10 * time.Second
	}
	defer time.AfterFunc(over, cancel).Stop()

	sum := &sample{Elapsed: time.Duration(a.end.Load() - a.start.Load()), Shares: make([]int64, s.Seats)}
	parts := make([]*sample, s.Seats)
	cpu := ownCPU()
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() { parts[i] = s.work(ctx, a, i) })
	}
	all.Wait()
	sum.Client = ownCPU() - cpu
	for i, p := range parts {
		sum.Shares[i] = p.Ops
		sum.add(p)
	}
	return sum
}

// work does the work of seat i.
func (s *seated) work(ctx context.Context, a *arena, i int) *sample {
	p := new(sample)
	l, name := s.lockers[i%len(s.lockers)], s.Name
	if s.Own {
		name += "-" + strconv.Itoa(s.Proc) + "-" + strconv.Itoa(i)
	}
	start, end := a.start.Load(), a.end.Load()
	var last uint64 // token
	for {
		asked := nano()
		if asked >= end {
			return p
		}
		unlock, token, err := l.lock(ctx, name)
		got := nano()
		p.Longest = max(p.Longest, min(got, end)-asked)
		if err != nil {
			if got < end {
				p.Error = err.Error()
			}
			return p
		}
		counts := got >= start && got < end
		if s.Own {
			if token != 0 && token <= last {
				p.Error = "a token did not grow"
			}
			last = token
		} else if before, left := a.enter(s.Proc, token, got >= end); counts && s.Measure == handOff && left >= start && before != int64(s.Proc)+1 {
			p.Times = append(p.Times, got-left)
		}
		if s.Hold > 0 {
			time.Sleep(s.Hold)
		}
		if !s.Own {
			a.leave()
		}
		if err := unlock(); err != nil && p.Error == "" {
			p.Error = "release: " + err.Error()
			return p
		}
		p.All++
		if counts {
			p.Ops++
			switch s.Measure {
			case pair:
				p.Times = append(p.Times, nano()-asked)
			case waiting:
				p.Times = append(p.Times, got-asked)
			}
		}
	}
}
