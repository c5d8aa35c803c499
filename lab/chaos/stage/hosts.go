// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"syscall"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/link"
)

// host is a server. Up starts it unless it runs, and waits until it serves.
type host interface {
	Signal(syscall.Signal)
	Kill()
	Start() error
	Up() error
}

// up continues and starts all hosts, and then waits for them: one host may need the others.
func up[H host](all []H) error {
	for _, h := range all {
		h.Signal(syscall.SIGCONT)
		if err := h.Start(); err != nil {
			return err
		}
	}
	for _, h := range all {
		if err := h.Up(); err != nil {
			return err
		}
	}
	return nil
}

func killAll[H host](all []H) {
	for _, h := range all {
		h.Kill()
	}
}

// freeze stops hosts for at most longest. They go on one after the other.
func freeze[H interface{ Signal(syscall.Signal) }](a *Act, longest time.Duration, all ...H) error {
	for _, h := range all {
		h.Signal(syscall.SIGSTOP)
	}
	a.Last(a.TTL/20, longest)
	for i, h := range all {
		if i > 0 {
			a.Last(0, a.TTL/10)
		}
		h.Signal(syscall.SIGCONT)
	}
	return nil
}

// crash kills hosts, and starts them again after a while.
func crash[H host](a *Act, all ...H) error {
	killAll(all)
	a.Last(0, a.TTL)
	for _, h := range all {
		if err := h.Start(); err != nil {
			return err
		}
	}
	a.Last(a.TTL/2, a.TTL)
	return nil
}

// linksTo returns links to the addresses.
func linksTo(addrs ...string) (wires, error) {
	var w wires
	for _, a := range addrs {
		l, err := link.New(a)
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
