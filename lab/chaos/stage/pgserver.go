// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// pgServer is a PostgreSQL server. Its user may not be able to read the folder of the run, so the server has a
// folder elsewhere.
type pgServer struct{ *servers.Postgres }

func newPGServer(settings ...string) (*pgServer, error) {
	p, err := servers.NewPostgres("", "-c", "log_min_messages=fatal")
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		p.Args = append(p.Args, "-c", s)
	}
	p.Addr, err = p.Hold()
	return &pgServer{p}, err
}

// Await starts the server unless it runs, and waits until it serves. After a kill, child processes may keep the
// shared memory for a moment, and the start fails. So Await starts it again and again.
func (p *pgServer) Await() error { return await("PostgreSQL at "+p.Addr, start, p.Start) }

// Cont continues the server and its children.
func (p *pgServer) Cont() { p.signal(syscall.SIGCONT) }

// End ends the server for good, and removes its files.
func (p *pgServer) End() {
	p.Cont() // stopped children would keep it
	p.Remove()
}

// end shuts the server down as an administrator does, so that replicas get everything that is
// committed.
func (p *pgServer) end() {
	p.Cont()
	p.Quit(syscall.SIGINT, 5*time.Second)
}

// children returns the ids of the server's child processes.
func (p *pgServer) children() (all []int) {
	if !p.Alive() {
		return nil
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Pid()))
	for _, s := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(s)
		all = append(all, pid)
	}
	return all
}

// signal sends a signal to the server and its children, and returns the children.
func (p *pgServer) signal(s syscall.Signal) []int {
	all := p.children()
	if p.Alive() {
		signal([]int{p.Pid()}, s)
	}
	signal(all, s)
	return all
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, s)
	}
}

// destroy kills the server and its children. Stopped children would survive the server.
func (p *pgServer) destroy() {
	all := p.children()
	p.Kill()
	signal(all, syscall.SIGKILL)
}

// pgFaults returns faults of the server that draw returns. up starts it again.
func pgFaults(draw func() *pgServer, up func() error) []Fault {
	return []Fault{
		{Kind: "kill -9, restart", Weight: 3, Do: func(a *Act) error {
			draw().Kill()
			a.Last(0, a.TTL)
			return up()
		}},
		{Kind: "orderly restart", Weight: 2, Do: func(a *Act) error {
			draw().end()
			return up()
		}},
		{Kind: "kill -9 of a backend", Weight: 3, Do: func(a *Act) error {
			if all := draw().children(); len(all) > 0 {
				syscall.Kill(all[a.Rand.IntN(len(all))], syscall.SIGKILL)
			}
			a.Last(0, a.TTL/2)
			return up()
		}},
		{Kind: "a backend stops and continues", Weight: 2, Do: func(a *Act) error {
			all := draw().children()
			if len(all) == 0 {
				return nil
			}
			pid := all[a.Rand.IntN(len(all))]
			syscall.Kill(pid, syscall.SIGSTOP)
			a.Last(a.TTL/20, 2*a.TTL)
			syscall.Kill(pid, syscall.SIGCONT)
			return nil
		}},
		{Kind: "the server stops and continues", Weight: 2, Do: func(a *Act) error {
			// Another fault may kill the server meanwhile, so continue the children in any case. Stopped children would
			// keep the shared memory, and a new server could not start with the same data.
			p := draw()
			children := p.signal(syscall.SIGSTOP)
			a.Last(a.TTL/20, 2*a.TTL)
			p.Cont()
			signal(children, syscall.SIGCONT)
			return nil
		}},
	}
}
