// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/stage"
)

// crew has the worker processes, which use the store.
type crew struct {
	run   *run
	logs  string // the folder of the workers' diaries
	names []string

	mu   sync.Mutex
	now  []*process // running workers, by number
	born int
	hung []string // names of workers that did not end when they were asked to
}

// build builds the workers' program and the command pawl, with the mutant if there is one.
func (r *run) build() error {
	r.program = filepath.Join(r.dir, "worker")
	args := []string{"build", "-o", ""}
	if r.mutant != "" {
		overlay, err := writeOverlay(r.mutant, r.dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	for _, program := range []string{"lab/chaos/worker", "cmd/pawl"} {
		if program == "cmd/pawl" && len(r.only) > 0 && !slices.Contains(r.only, "guest: commands") {
			continue // not needed, and slow to link
		}
		args[2] = filepath.Join(r.dir, filepath.Base(program))
		if out, err := exec.Command("go", append(args, "github.com/pawl-go/pawl/"+program)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s is not built: %w\n%s", program, err, out)
		}
	}
	return nil
}

// spawn starts worker number i, or starts it again.
func (c *crew) spawn(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.born++
	p, err := c.start(fmt.Sprintf("w%d-%d", i, c.born), c.run.stage.URL(i), "-seed", fmt.Sprint(c.run.seed+uint64(1000*c.born)))
	if err == nil {
		c.now[i] = p
	}
	return err
}

func (c *crew) start(name, url string, args ...string) (*process, error) {
	return c.startAs(nil, name, url, args...)
}

// startAs starts a process with program, or with the workers' program if that is nil.
func (c *crew) startAs(program []string, name, url string, args ...string) (*process, error) {
	if program == nil {
		program = []string{c.run.program}
	}
	return startProcess(filepath.Join(c.run.dir, "workers", name), slices.Concat(program, []string{"-store", url, "-log", filepath.Join(c.logs, name+".log"),
		"-names", strings.Join(c.names, ","), "-ttl", c.run.ttl.String(), "-lanes", fmt.Sprint(c.run.lanes), "-v"}, args))
}

// worker returns the process of worker i.
func (c *crew) worker(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[i]
}

// faults returns the faults of clients.
func (c *crew) faults() []stage.Fault {
	draw := func(a *stage.Act) int { return a.Rand.IntN(len(c.now)) }
	return []stage.Fault{
		{Kind: "client stopped", Weight: 2, Do: func(a *stage.Act) error {
			p := c.worker(draw(a))
			p.signal(syscall.SIGSTOP)
			a.Last(a.TTL/20, 3*a.TTL)
			p.signal(syscall.SIGCONT)
			return nil
		}},
		{Kind: "client killed", Do: func(a *stage.Act) error {
			i := draw(a)
			c.worker(i).kill()
			a.Last(0, a.TTL)
			return c.spawn(i)
		}},
		{Kind: "client ended and begun", Do: func(a *stage.Act) error {
			i := draw(a)
			c.end(i)
			return c.spawn(i)
		}},
	}
}

// end asks worker i to end, and waits until it has ended. During a fault that may take a while.
func (c *crew) end(i int) {
	c.dismiss(c.worker(i))
}

func (c *crew) dismiss(p *process) {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	if p.endsIn(30 * time.Second) {
		return
	}
	c.mu.Lock()
	c.hung = append(c.hung, filepath.Base(p.dir))
	c.mu.Unlock()
}

// endAll ends all workers at the same time.
func (c *crew) endAll() {
	var all sync.WaitGroup
	for i := range c.now {
		all.Go(func() { c.end(i) })
	}
	all.Wait()
}
