// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// load is what the participants of one process do in a cell: each takes the lock,
// keeps it for Hold, gives it back, and begins anew until the cell is over.
type load struct {
	Contender string
	Proc      int           // the number of the process
	Procs     int           // of how many
	Seats     int           // goroutines of this process
	Own       bool          // each its own lock, instead of one for all
	Meet      bool          // with Own: the lock is also that of one goroutine of each other process
	Apart     bool          // each with a client of its own, as if it were another program
	Hold      time.Duration // nothing unless set
	Rest      time.Duration // after each release
	Name      string        // of the lock, or what the names of own locks begin with
	Measure   measure
}

// measure is which time a cell is about.
type measure string

const (
	pair    measure = "acquire and release"
	waiting measure = "acquire"
	// In another process, unless the clients have many waiters each and no line of
	// their own: then it goes through the store in any case.
	handOff measure = "release to the next holder"
)

// seated is the lockers of one process.
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
		// Neighbours in the order of seats are in different processes.
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
	// Without a deadline, from which some libraries would take their TTL. A client with a
	// lock of its own does not wait, and ends by itself.
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
	for _, l := range s.lockers {
		if g, ok := l.(gaveUp); ok {
			sum.GaveUp += g.givenUp()
		}
	}
	return sum
}

// work is one seat.
func (s *seated) work(ctx context.Context, a *arena, i int) *sample {
	p := new(sample)
	defer p.Times.pack()
	l, name := s.lockers[i%len(s.lockers)], s.Name
	switch {
	case s.Meet:
		name += "-" + strconv.Itoa(i)
	case s.Own:
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
			if s.Meet {
				a.meets(s.Proc, i)
			}
		} else if before, left := a.enter(s.Proc, token, got >= end); counts && s.Measure == handOff && left >= start && (!s.Apart || before != int64(s.Proc)+1) {
			p.Times.add(got - left)
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
				p.Times.add(nano() - asked)
			case waiting:
				p.Times.add(got - asked)
			}
		}
		if s.Rest > 0 {
			time.Sleep(s.Rest)
		}
	}
}
