// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// replicated is a PostgreSQL primary with a streaming replica. From time to time the replica is
// promoted, and the old primary comes back as its replica. Each worker has a link to each
// server, and names both links in its URL.
type replicated struct {
	Settings
	mode    string // of the store
	servers [2]*pgServer
	streams wires   // the link to each server from its replica
	links   []wires // for each worker, a link to each server
	time    *clock  // of both servers, because a promoted replica with another clock would look like a clock that was set

	turn    sync.Mutex // held while servers end and start
	primary int        // guarded by turn
}

func newReplicated(s Settings, mode string) (*Topology, error) {
	t := &replicated{Settings: s, mode: mode}
	if err := t.begin(); err != nil {
		for _, p := range t.servers {
			if p != nil {
				p.End()
			}
		}
		return nil, err
	}
	at := func(addrs, schema string) string {
		return fmt.Sprintf("postgres://pawl@%s/postgres?sslmode=disable&max_ttl=%v&mode=%s&schema=%s", addrs, s.MaxTTL, mode, schema)
	}
	both := t.servers[0].Addr + "," + t.servers[1].Addr
	return &Topology{
		URL:     func(worker int) string { return at(strings.Join(t.links[worker].addrs(), ","), "pawl") },
		Direct:  at(both, "pawl"),
		Faults:  t.faults(),
		Guests:  guests(s, at(both, "pawl"), at(both, "elsewhere")),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 3*s.TTL + 2*s.MaxTTL},
		hosts:   hostsOf(t.servers[:]), links: slices.Concat(append(t.links, t.streams)...), whole: t.streaming,
	}, nil
}

func (t *replicated) begin() (err error) {
	settings := []string{"wal_receiver_status_interval=1", "wal_retrieve_retry_interval=100ms"}
	if t.mode == "synchronous" {
		settings = append(settings, "synchronous_standby_names=*")
	}
	for i := range t.servers {
		if t.servers[i], err = newPGServer(settings...); err != nil {
			return err
		}
	}
	if t.streams, err = linksTo(t.servers[0].Addr, t.servers[1].Addr); err != nil {
		return err
	}
	if t.Clocks {
		if t.time, err = newClock(filepath.Join(filepath.Dir(t.servers[0].Dir), "time")); err != nil {
			return err
		}
		for _, p := range t.servers {
			p.Env = t.time.env()
		}
	}
	if t.links, err = t.eachWorker(t.servers[0].Addr, t.servers[1].Addr); err != nil {
		return err
	}
	if err := errors.Join(t.servers[0].Initialize(), t.servers[0].Await()); err != nil {
		return err
	}
	return t.follow(1)
}

// follow makes server i a replica of the other one, with a fresh copy of the data, and waits until it
// streams. The caller holds turn, or no fault has begun yet.
func (t *replicated) follow(i int) error {
	p, from := t.servers[i], t.streams[1-i]
	p.destroy()
	from.Heal()
	if err := await("the folder of a replica", start, func() error { return os.RemoveAll(p.Dir) }); err != nil {
		return err
	}
	if err := p.Follow(from.Addr()); err != nil {
		return err
	}
	if err := p.Await(); err != nil {
		return err
	}
	t.primary = 1 - i
	return t.streaming()
}

// streaming waits until the replica streams from the primary.
func (t *replicated) streaming() error {
	return await("the replica", start, func() error {
		n, err := t.servers[t.primary].SQL("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
		if err == nil && n != "1" {
			err = fmt.Errorf("%s replicas follow", n)
		}
		return err
	})
}

// up starts the servers that do not run, the primary first. The caller holds turn.
func (t *replicated) up() error {
	return errors.Join(t.servers[t.primary].Await(), t.servers[1-t.primary].Await(), t.streaming())
}

// replace calls end for the primary, and promotes the replica at once or a little later. Then it
// calls meanwhile for the old primary, waits for a while, and makes the old primary the replica.
func (t *replicated) replace(a *Act, end, meanwhile func(old *pgServer)) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	i := t.primary
	old, next := t.servers[i], t.servers[1-i]
	end(old)
	t.streams[i].Reset() // bytes on their way to the replica are lost
	if a.Rand.IntN(2) == 0 {
		a.Last(0, a.TTL/2)
	}
	if err := next.Promote(); err != nil {
		return err
	}
	a.Note("%s is the primary", next.Addr)
	if meanwhile != nil {
		meanwhile(old)
	}
	a.Last(0, 2*a.TTL)
	return t.follow(i)
}

func (t *replicated) faults() []Fault {
	kill := func(p *pgServer) { p.Kill() }
	stop := func(p *pgServer) { p.signal(syscall.SIGSTOP) }
	goOn := func(a *Act) func(*pgServer) {
		return func(p *pgServer) {
			a.Last(0, a.TTL)
			p.Cont()
		}
	}
	beyond := "an old primary that goes on"
	if t.mode == "synchronous" {
		beyond = "" // the old primary can commit nothing, because no replica confirms
	}
	all := append(slices.Concat(t.links...).faults(),
		Fault{Kind: "kill -9, promotion", Weight: 3, Do: func(a *Act) error { return t.replace(a, kill, nil) }},
		Fault{Kind: "the replica is behind, kill -9, promotion", Weight: 4, Do: func(a *Act) error {
			return t.replace(a, func(p *pgServer) {
				l := t.streams[t.primary]
				l.Flow(servers.Down, servers.Flow{Lose: true})
				a.Last(a.TTL/10, a.TTL)
				p.Kill()
				l.Heal()
			}, nil)
		}},
		Fault{Kind: "orderly end, promotion", Weight: 2, Do: func(a *Act) error { return t.replace(a, (*pgServer).end, nil) }},
		Fault{Kind: "the primary stops, promotion", Weight: 2, Do: func(a *Act) error { return t.replace(a, stop, nil) }},
		Fault{Kind: "the primary stops, promotion, it goes on", Beyond: beyond, Weight: 2, Do: func(a *Act) error { return t.replace(a, stop, goOn(a)) }},
		Fault{Kind: "kill -9 of the replica", Do: func(a *Act) error {
			t.turn.Lock()
			defer t.turn.Unlock()
			t.servers[1-t.primary].Kill()
			a.Last(0, a.TTL)
			return t.up()
		}},
	)
	if t.time != nil {
		all = append(all, clockFaults(func(*Act) *clock { return t.time })...)
	}
	for _, f := range pgFaults(func() *pgServer { return t.servers[t.primary] }, t.up) {
		do := f.Do
		f.Do = func(a *Act) error {
			t.turn.Lock()
			defer t.turn.Unlock()
			return do(a)
		}
		all = append(all, f)
	}
	return all
}
