// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// postgres is a PostgreSQL server whose commits reach the disk, with a link for each
// worker. The first worker connects through PgBouncer, so it cannot use LISTEN.
type postgres struct {
	Settings
	server *pgServer
	pooler Process
	pooled string // address of the pooler
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
		t.links, err = linksTo(append([]string{t.pooled}, slices.Repeat([]string{t.server.addr}, s.Workers-1)...)...)
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
		if t.time, err = newClock(filepath.Join(t.server.Dir, "time")); err != nil {
			return err
		}
		t.server.Env = t.time.env()
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	t.pooled = "127.0.0.1:" + ports[0]
	conf := filepath.Join(t.server.Dir, "pgbouncer.ini")
	t.pooler.Dir = t.server.Dir
	t.pooler.Args = append(t.server.as[:len(t.server.as):len(t.server.as)], "/usr/sbin/pgbouncer", "-q", conf)
	text := fmt.Sprintf("[databases]\npostgres = host=127.0.0.1 port=%s user=pawl\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = transaction\ndefault_pool_size = 5\nserver_login_retry = 0.1\n", t.server.port, ports[0])
	return errors.Join(t.server.initdb(), os.WriteFile(conf, []byte(text), 0o644))
}

// up starts the server and the pooler, if they do not run, and waits until they serve.
func (t *postgres) up() error {
	if err := t.server.up(); err != nil {
		return err
	}
	return await("PgBouncer at "+t.pooled, start, func() error {
		if err := t.pooler.Start(); err != nil {
			return err
		}
		return serving(t.server.bin, t.pooled)
	})
}

func (t *postgres) at(addr, schema string) string {
	return fmt.Sprintf("postgres://pawl@%s/postgres?sslmode=disable&max_ttl=%v&schema=%s", addr, t.MaxTTL, schema)
}

func (t *postgres) URL(worker int) string { return t.at(t.links[worker].Addr(), "pawl") }
func (t *postgres) Direct() string        { return t.at(t.server.addr, "pawl") }
func (t *postgres) Guests() []Guest {
	return guests(t.Settings, t.Direct(), t.at(t.server.addr, "elsewhere"))
}

func (t *postgres) Promise() Promise {
	return Promise{Shared: true, Slots: true, Tokens: true, Settle: 3 * t.TTL}
}

func (t *postgres) Heal() error {
	t.links.heal()
	t.server.signal(syscall.SIGCONT)
	t.pooler.Signal(syscall.SIGCONT)
	return t.up()
}

func (t *postgres) Stop() {
	t.links.close()
	t.pooler.Kill()
	if t.server != nil {
		t.server.remove()
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
			t.pooler.Signal(syscall.SIGINT) // PgBouncer then waits for open transactions
			t.pooler.Term(a.TTL)
			return t.up()
		}},
		Fault{Kind: "PgBouncer stops and continues", Do: func(a *Act) error {
			return freeze(a, 2*a.TTL, &t.pooler)
		}},
	)
}
