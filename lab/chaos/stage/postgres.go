// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// postgres is a PostgreSQL server whose commits reach the disk, with a link for each
// worker. The first worker connects through PgBouncer, so it cannot use LISTEN.
type postgres struct {
	Settings
	server *pgServer
	pooler *servers.PgBouncer
	time   *clock // nil: the machine's clock
	links  wires
}

func newPostgres(s Settings) (Topology, error) {
	t := &postgres{Settings: s}
	err := t.prepare()
	if err == nil {
		err = t.up()
	}
	if err == nil {
		t.links, err = linksTo(append([]string{t.pooler.Addr}, slices.Repeat([]string{t.server.Addr}, s.Workers-1)...)...)
	}
	if err != nil {
		t.Stop()
		return nil, err
	}
	return t, nil
}

// prepare makes the files of the server and the pooler.
func (t *postgres) prepare() (err error) {
	if t.server, err = newPGServer(); err != nil {
		return err
	}
	if t.Clocks {
		if t.time, err = newClock(filepath.Join(filepath.Dir(t.server.Dir), "time")); err != nil {
			return err
		}
		t.server.Env = t.time.env()
	}
	if t.pooler, err = servers.NewPgBouncer(t.server.Postgres, ""); err != nil {
		return err
	}
	return t.server.Initialize()
}

// up starts the server and the pooler, if they do not run, and waits until they serve.
func (t *postgres) up() error {
	if err := t.server.up(); err != nil {
		return err
	}
	return await("PgBouncer", start, t.pooler.Start)
}

func (t *postgres) at(addr, schema string) string {
	return fmt.Sprintf("postgres://pawl@%s/postgres?sslmode=disable&max_ttl=%v&schema=%s", addr, t.MaxTTL, schema)
}

func (t *postgres) URL(worker int) string { return t.at(t.links[worker].Addr(), "pawl") }
func (t *postgres) Direct() string        { return t.at(t.server.Addr, "pawl") }
func (t *postgres) Guests() []Guest {
	return guests(t.Settings, t.Direct(), t.at(t.server.Addr, "elsewhere"))
}

func (t *postgres) Promise() Promise {
	return Promise{Shared: true, Slots: true, Tokens: true, Settle: 3 * t.TTL}
}

func (t *postgres) Heal() error {
	t.links.heal()
	t.server.signal(syscall.SIGCONT)
	t.pooler.Cont()
	return t.up()
}

func (t *postgres) Stop() {
	t.links.close()
	if t.pooler != nil {
		t.pooler.Remove()
	}
	if t.server != nil {
		t.server.signal(syscall.SIGCONT)
		t.server.Remove()
	}
}

func (t *postgres) Faults() []Fault {
	all := append(t.links.faults(), pgFaults(func() *pgServer { return t.server }, t.up)...)
	if t.time != nil {
		all = append(all, clockFaults(func(*Act) *clock { return t.time })...)
	}
	return append(all,
		Fault{Kind: "kill -9 of PgBouncer", Do: func(a *Act) error {
			t.pooler.Kill()
			a.Last(0, a.TTL)
			return t.up()
		}},
		Fault{Kind: "orderly restart of PgBouncer", Do: func(a *Act) error {
			t.pooler.Quit(syscall.SIGINT, a.TTL) // PgBouncer then waits for open transactions
			return t.up()
		}},
		Fault{Kind: "PgBouncer stops and continues", Do: func(a *Act) error {
			return freeze(a, 2*a.TTL, t.pooler)
		}},
	)
}
