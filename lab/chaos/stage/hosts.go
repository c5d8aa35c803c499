// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// host is a server of package servers.
type host interface {
	Launch() error
	Await() error
	Kill()
	Stop()
	Cont()
	End()
}

// hostsOf returns servers as hosts.
func hostsOf[H host](servers []H) (all []host) {
	for _, s := range servers {
		all = append(all, s)
	}
	return all
}

// up continues and starts all hosts, and then waits for them: one host may need the others.
func up(all []host) error {
	for _, h := range all {
		h.Cont()
		if err := h.Launch(); err != nil {
			return err
		}
	}
	for _, h := range all {
		if err := h.Await(); err != nil {
			return err
		}
	}
	return nil
}

// freeze stops hosts for at most longest. They go on one after the other.
func freeze[H host](a *Act, longest time.Duration, all ...H) error {
	for _, h := range all {
		h.Stop()
	}
	a.Last(a.TTL/20, longest)
	for i, h := range all {
		if i > 0 {
			a.Last(0, a.TTL/10)
		}
		h.Cont()
	}
	return nil
}

// crash kills hosts, and starts them again after a while.
func crash[H host](a *Act, all ...H) error {
	for _, h := range all {
		h.Kill()
	}
	a.Last(0, a.TTL)
	for _, h := range all {
		if err := h.Launch(); err != nil {
			return err
		}
	}
	a.Last(a.TTL/2, a.TTL)
	return nil
}

// memberFaults returns faults of a cluster of three servers and of the links between them. leader returns the number
// of the leader, or -1. beyond is what breaks if it stops.
func memberFaults[H host](what string, all []H, between wires, leader func() int, beyond string) []Fault {
	faults := []Fault{
		{Kind: "kill -9 of a " + what, Weight: 3, Do: func(a *Act) error { return crash(a, all[a.Rand.IntN(3)]) }},
		{Kind: "kill -9 of the leader", Weight: 3, Do: leads(leader, func(a *Act, i int) error { return crash(a, all[i]) })},
		{Kind: "kill -9 of all", Do: func(a *Act) error { return crash(a, all...) }},
		{Kind: "a follower stops and continues", Weight: 2, Do: leads(leader, func(a *Act, i int) error {
			return freeze(a, 2*a.TTL, all[(i+1+a.Rand.IntN(2))%3])
		})},
		{Kind: "the leader stops and continues", Beyond: beyond, Weight: 2, Do: leads(leader, func(a *Act, i int) error {
			return freeze(a, 2*a.TTL, all[i])
		})},
	}
	for _, f := range between.faults() {
		f.Kind = "between " + what + "s: " + f.Kind
		faults = append(faults, f)
	}
	return faults
}

// leads returns what happens while there is a leader.
func leads(leader func() int, do func(a *Act, leader int) error) func(*Act) error {
	return func(a *Act) error {
		if i := leader(); i >= 0 {
			return do(a, i)
		}
		a.Note("there is no leader")
		return nil
	}
}

// member prepares server i of a cluster of three, with n more addresses than that for clients.
func (s Settings) member(h *servers.Server, n int) (more []string, err error) {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return nil, err
	}
	h.Log = logIn(h.Dir)
	if h.Addr, err = h.Hold(); err != nil {
		return nil, err
	}
	for range n {
		addr, err := h.Hold()
		if err != nil {
			return nil, err
		}
		more = append(more, addr)
	}
	return more, nil
}

// logIn returns the file with the output of a server or a client.
func logIn(dir string) string { return filepath.Join(dir, "out") }

// await calls f until it returns nil, for at most patience.
func await(what string, patience time.Duration, f func() error) error {
	var err error
	if servers.Eventually(patience, func() bool { err = f(); return err == nil }) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// start is how long a server may take to start on a very busy machine.
const start = time.Minute

// linksTo returns links to the addresses.
func linksTo(addrs ...string) (wires, error) {
	var w wires
	for _, a := range addrs {
		l, err := servers.NewLink(a)
		if err != nil {
			return nil, err
		}
		w = append(w, l)
	}
	return w, nil
}

// eachWorker returns links to the addresses for each worker.
func (s Settings) eachWorker(addrs ...string) ([]wires, error) {
	all := make([]wires, s.Workers)
	var err error
	for i := range all {
		if all[i], err = linksTo(addrs...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w wires) addrs() (all []string) {
	for _, l := range w {
		all = append(all, l.Addr())
	}
	return all
}
