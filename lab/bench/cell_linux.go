// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// run runs the cells of a workload.
type run struct {
	*workload
	world *world
	dir   string // directory for files
	cell  time.Duration
}

// measure runs a cell once. An error is in the sample.
func (r *run) measure(contender string, round int) *sample {
	f := r.special
	if f == nil {
		f = (*run).loaded
	}
	s, err := f(r, contender, fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(r.id, "/", "-"), round, time.Now().UnixNano()))
	if err != nil {
		return &sample{Error: err.Error()}
	}
	s.settle()
	return s
}

// loaded runs a cell that consists of a load.
func (r *run) loaded(contender, name string) (*sample, error) {
	l := r.load
	l.Contender, l.Name = contender, name
	file := filepath.Join(r.dir, "arena")
	defer os.Remove(file)
	a, err := newArena(file)
	if err != nil {
		return nil, err
	}
	defer a.close()
	var s *sample
	err = r.costs(contender, &s, func() (*sample, error) {
		if l.Procs > 1 {
			return r.elsewhere(l, a, file)
		}
		l.Procs = 1
		return r.here(l, a)
	})
	if err != nil {
		return nil, err
	}
	s.Crossed = a.crossed.Load()
	if err := a.verdict(); err != nil {
		s.Error = err.Error()
	}
	return s, nil
}

// costs calls f, and adds to the sample the requests and the processor time that f costs the servers.
func (r *run) costs(contender string, s **sample, f func() (*sample, error)) error {
	cpu, err := r.world.cpu()
	if err != nil {
		return err
	}
	before, err := r.world.counted()
	if err != nil {
		return err
	}
	if *s, err = f(); err != nil {
		return err
	}
	after, err := r.world.counted()
	if err != nil {
		return err
	}
	(*s).Requests = after.since(before, contenders[contender].direct)
	now, err := r.world.cpu()
	(*s).Server = now - cpu
	return err
}

// schedule sets the begin and the end of the cell.
func (r *run) schedule(a *arena) {
	start := nano() + int64(max(r.cell/8, r.warm))
	a.start.Store(start)
	a.end.Store(start + int64(r.cell))
}

// here runs a load in this process.
func (r *run) here(l load, a *arena) (*sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	s, err := sit(ctx, r.world, l)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r.schedule(a)
	return s.drive(a), nil
}

// elsewhere runs a load in several processes.
func (r *run) elsewhere(l load, a *arena, file string) (*sample, error) {
	workers := make([]*worker, l.Procs)
	for i := range workers {
		l.Proc = i
		w, err := spawn(&task{Do: "drive", World: r.world, Load: l, Arena: file})
		if err != nil {
			return nil, err
		}
		defer w.kill()
		workers[i] = w
	}
	for _, w := range workers {
		var ready string
		if err := w.hear(&ready); err != nil {
			return nil, err
		}
	}
	r.schedule(a)
	for _, w := range workers {
		w.tell()
	}
	sum := new(sample)
	for _, w := range workers {
		p := new(sample)
		if err := w.hear(p); err != nil {
			return nil, err
		}
		sum.Elapsed = p.Elapsed
		sum.Shares = append(sum.Shares, p.Ops)
		sum.add(p)
	}
	return sum, nil
}
