// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// newPostgres starts a PostgreSQL server whose commits reach the disk, with a link for each
// worker. The first worker connects through PgBouncer, so it cannot use LISTEN.
func newPostgres(s Settings) (*Topology, error) {
	server, err := newPGServer()
	if err != nil {
		return nil, err
	}
	t := &Topology{Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 3 * s.TTL}, hosts: []host{server}}
	if s.Clocks {
		time, err := newClock(filepath.Join(filepath.Dir(server.Dir), "time"))
		if err != nil {
			return nil, err
		}
		server.Env = time.env()
		t.Faults = clockFaults(func(*Act) *clock { return time })
	}
	b, err := servers.NewPgBouncer(server.Postgres, "")
	if err != nil {
		return nil, err
	}
	pooler := pgPooler{b}
	t.hosts = append(t.hosts, pooler)
	up := func() error { return errors.Join(server.Await(), pooler.Await()) }
	if err = errors.Join(server.Initialize(), up()); err == nil {
		t.links, err = linksTo(append([]string{pooler.Addr}, slices.Repeat([]string{server.Addr}, s.Workers-1)...)...)
	}
	if err != nil {
		t.Stop()
		return nil, err
	}
	at := func(addr, schema string) string {
		return fmt.Sprintf("postgres://pawl@%s/postgres?sslmode=disable&max_ttl=%v&schema=%s", addr, s.MaxTTL, schema)
	}
	t.URL, t.Direct = func(worker int) string { return at(t.links[worker].Addr(), "pawl") }, at(server.Addr, "pawl")
	t.Guests = guests(s, t.Direct, at(server.Addr, "elsewhere"))
	t.Faults = slices.Concat(t.Faults, t.links.faults(), pgFaults(func() *pgServer { return server }, up), []Fault{
		{Kind: "kill -9 of PgBouncer", Do: func(a *Act) error {
			pooler.Kill()
			a.Last(0, a.TTL)
			return up()
		}},
		{Kind: "orderly restart of PgBouncer", Do: func(a *Act) error {
			pooler.Quit(syscall.SIGINT, a.TTL) // PgBouncer then waits for open transactions
			return up()
		}},
		{Kind: "PgBouncer stops and continues", Do: func(a *Act) error { return freeze(a, 2*a.TTL, pooler) }},
	})
	return t, nil
}

type pgPooler struct{ *servers.PgBouncer }

// Await starts the pooler again and again, because a fault of the server may end it.
func (b pgPooler) Await() error { return await("PgBouncer", start, b.Start) }

func (b pgPooler) End() { b.Remove() }
