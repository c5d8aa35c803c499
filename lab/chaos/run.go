// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/check"
	"github.com/pawl-go/pawl/lab/chaos/stage"
)

// run is a run on one topology, with its settings and its result.
type run struct {
	store   string
	length  time.Duration
	seed    uint64
	workers int
	lanes   int
	gap     time.Duration // the longest time between two faults of the servers
	ttl     time.Duration
	maxTTL  time.Duration
	beyond  bool
	clocks  bool
	only    []string // kinds of faults; empty: all
	mutant  string
	dir     string
	idle    time.Duration // how long a name may be free while somebody waits for it
	calm    time.Duration // how long the clients go on after the last fault and the longest quarantine
	program string        // program of the workers; empty: build it

	stage   *stage.Topology
	nemesis *nemesis
	result  *check.Run
	found   []check.Violation
	left    int
}

// do starts the servers and the clients, lets faults happen, waits for calm, and checks the diaries.
func (r *run) do(ctx context.Context) error {
	if r.program == "" {
		if err := r.build(); err != nil {
			return err
		}
	}
	logs := filepath.Join(r.dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	var err error
	r.stage, err = stage.New(r.store, stage.Settings{Dir: filepath.Join(r.dir, "servers"), Workers: r.workers, TTL: r.ttl, MaxTTL: r.maxTTL, Clocks: r.clocks})
	if err != nil {
		return err
	}
	defer r.stage.Stop()
	promise := r.stage.Promise
	c := &crew{run: r, logs: logs, names: namesFor(promise), now: make([]*process, r.workers)}
	// The first client sets what all clients have to agree on. It runs alone, because each of the later
	// ones reaches the store in a different way.
	if err := r.probe(c, "first", "-patience", time.Minute.String()); err != nil {
		return err
	}
	for i := range r.workers {
		if err := c.spawn(i); err != nil {
			return err
		}
		defer func() { c.worker(i).kill() }()
	}
	if err := r.disturb(ctx, c); err != nil {
		return err
	}
	quiet := now()
	pause(ctx, promise.Settle+r.calm)
	end := now()
	c.endAll()
	time.Sleep(r.ttl + time.Second) // let the leases of killed clients end
	if err := r.probe(c, "probe"); err != nil {
		return err
	}
	if r.result, err = check.Read(logs); err != nil {
		return err
	}
	r.found = r.result.Check(check.Promise{Quiet: quiet, End: end, Settle: promise.Settle, Idle: r.idle, Tokens: promise.Tokens})
	r.findLeft()
	for _, name := range c.hung {
		r.found = append(r.found, check.Violation{Rule: check.Hangs, At: end, Until: now(), Text: name + " did not end within 30 s"})
	}
	return ctx.Err()
}

// namesFor returns the names that all clients use. They are few, so that clients compete.
func namesFor(p stage.Promise) []string {
	names := []string{"one-0", "one-1"}
	if p.Shared {
		names = append(names, "rw-0")
	}
	if p.Slots {
		names = append(names, "slot-0")
	}
	return names
}

// disturb lets faults of servers, faults of clients, and guests happen at the same time, for as
// long as the run lasts. Then it heals everything.
func (r *run) disturb(ctx context.Context, c *crew) error {
	out, err := os.Create(filepath.Join(r.dir, "faults"))
	if err != nil {
		return err
	}
	defer out.Close()
	r.nemesis = &nemesis{ttl: r.ttl, out: out, alone: new(sync.RWMutex)}
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	servers, clients, guests := r.pick(r.stage.Faults), r.pick(c.faults()), r.pick(c.guests())
	if len(servers)+len(clients)+len(guests) == 0 && len(r.only) > 0 && r.only[0] != "none" {
		return fmt.Errorf("no fault is called any of %q; there are: %s", r.only, r.allKinds(c))
	}
	var all sync.WaitGroup
	all.Go(func() { r.nemesis.rage(ctx, rand.New(rand.NewPCG(r.seed, 1)), servers, r.gap) })
	all.Go(func() { r.nemesis.rage(ctx, rand.New(rand.NewPCG(r.seed, 2)), servers, 10*r.gap) })
	all.Go(func() { r.nemesis.rage(ctx, rand.New(rand.NewPCG(r.seed, 3)), clients, 5*time.Second) })
	all.Go(func() { r.nemesis.rage(ctx, rand.New(rand.NewPCG(r.seed, 4)), guests, r.ttl) })
	<-ctx.Done()
	all.Wait()
	err = errors.Join(append(r.nemesis.errs, r.stage.Heal())...)
	for i := range r.workers {
		c.worker(i).signal(syscall.SIGCONT)
		select {
		case <-c.worker(i).ended:
			err = errors.Join(err, fmt.Errorf("worker %d has ended by itself", i))
		default:
		}
	}
	return err
}

// pick returns the faults that this run may draw.
func (r *run) pick(faults []stage.Fault) []stage.Fault {
	return slices.DeleteFunc(faults, func(f stage.Fault) bool {
		if len(r.only) > 0 {
			return !slices.Contains(r.only, f.Kind)
		}
		return f.Beyond != "" && !r.beyond
	})
}

// allKinds names all faults that could be drawn.
func (r *run) allKinds(c *crew) string {
	var all []string
	for _, f := range append(append(r.stage.Faults, c.faults()...), c.guests()...) {
		all = append(all, f.Kind)
	}
	return strings.Join(all, "; ")
}

// probe starts a client that asks for every name once, while no other client runs.
func (r *run) probe(c *crew, name string, args ...string) error {
	p, err := c.start(name, r.stage.Direct, append([]string{"-probe"}, args...)...)
	if err != nil {
		return err
	}
	if !p.endsIn(2 * time.Minute) {
		c.hung = append(c.hung, name)
	}
	return nil
}

// findLeft reports each name that the probe did not get: a lease was left behind.
func (r *run) findLeft() {
	for _, c := range r.result.Claims {
		if c.Worker == "probe" && c.Granted == 0 {
			r.left++
			r.found = append(r.found, check.Violation{Rule: check.LeftBehind, Name: c.Name, At: c.Asked, Until: c.Done, Claims: []*check.Claim{c},
				Text: fmt.Sprintf("all clients have ended, and still %s is refused: %s", c.Name, c.Failed)})
		}
	}
}
