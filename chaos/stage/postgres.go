// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/chaos/link"
)

// postgres is a PostgreSQL server whose commits reach the disk, with a link for each
// worker. The first worker goes through PgBouncer and has nothing to listen on.
type postgres struct {
	Settings
	server Process
	pooler Process
	addr   string
	pooled string
	bin    string
	links  wires
}

func newPostgres(s Settings) (Topology, error) {
	t := &postgres{Settings: s}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	t.addr, t.pooled = "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1]
	if err := t.prepare(ports); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.server.Dir))
	}
	if err := t.up(); err != nil {
		t.Stop()
		return nil, err
	}
	for i := range s.Workers {
		to := t.addr
		if i == 0 {
			to = t.pooled
		}
		l, err := link.New(to)
		if err != nil {
			t.Stop()
			return nil, err
		}
		t.links = append(t.links, l)
	}
	return t, nil
}

// prepare makes the files. The server does not run as root, and its user may not read the
// folder of the run.
func (t *postgres) prepare(ports []string) error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		return errors.New("there is no PostgreSQL: apt-get install postgresql pgbouncer")
	}
	t.bin = found[len(found)-1]
	dir, err := os.MkdirTemp("", "pawl-chaos-postgres")
	if err != nil {
		return err
	}
	t.server.Dir, t.pooler.Dir = dir, dir
	var as []string
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return err
		}
		as = []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--pdeathsig=KILL"}
	}
	data, conf := filepath.Join(dir, "data"), filepath.Join(dir, "pgbouncer.ini")
	initdb := append(as[:len(as):len(as)], filepath.Join(t.bin, "initdb"), "-D", data, "-U", "pawl", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	cmd := exec.Command(initdb[0], initdb[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	t.server.Args = append(as[:len(as):len(as)], filepath.Join(t.bin, "postgres"), "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", ports[0],
		"-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "log_min_messages=fatal")
	text := fmt.Sprintf("[databases]\npostgres = host=127.0.0.1 port=%s user=pawl\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = transaction\ndefault_pool_size = 5\nserver_login_retry = 0.1\n", ports[0], ports[1])
	t.pooler.Args = append(as[:len(as):len(as)], "/usr/sbin/pgbouncer", "-q", conf)
	return os.WriteFile(conf, []byte(text), 0o644)
}

// up starts what does not run, and waits until it serves. The children of a server that was
// killed may keep its memory for a moment.
func (t *postgres) up() error {
	return await("PostgreSQL at "+t.addr, start, func() error {
		for _, p := range []*Process{&t.server, &t.pooler} {
			if !p.Runs() {
				p.Kill()
				if err := p.Start(); err != nil {
					return err
				}
			}
		}
		for _, addr := range []string{t.addr, t.pooled} {
			host, port, _ := net.SplitHostPort(addr)
			if err := exec.Command(filepath.Join(t.bin, "pg_isready"), "-q", "-t", "2", "-h", host, "-p", port).Run(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *postgres) at(addr, schema string) string {
	return fmt.Sprintf("postgres://pawl@%s/postgres?sslmode=disable&max_ttl=%v&schema=%s", addr, t.MaxTTL, schema)
}

func (t *postgres) URL(worker int) string { return t.at(t.links[worker].Addr(), "pawl") }
func (t *postgres) Direct() string        { return t.at(t.addr, "pawl") }
func (t *postgres) Guests() []Guest {
	return guests(t.Settings, t.Direct(), t.at(t.addr, "elsewhere"))
}

func (t *postgres) Promise() Promise {
	return Promise{Shared: true, Slots: true, Tokens: true, Settle: 3 * t.TTL}
}

// children returns the processes that the server has started.
func (t *postgres) children() (all []int) {
	mine := strconv.Itoa(t.server.PID())
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == mine {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, pid)
		}
	}
	return all
}

// signal sends a signal to the server and its children.
func (t *postgres) signal(s syscall.Signal) {
	t.server.Signal(s)
	for _, pid := range t.children() {
		syscall.Kill(pid, s)
	}
}

func (t *postgres) Heal() error {
	t.links.heal()
	t.signal(syscall.SIGCONT)
	t.pooler.Signal(syscall.SIGCONT)
	return t.up()
}

func (t *postgres) Stop() {
	t.links.close()
	t.pooler.Kill()
	t.server.Kill()
	for range 50 { // the children end a little later
		if os.RemoveAll(t.server.Dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (t *postgres) Faults() []Fault {
	return append(t.links.faults(),
		Fault{Kind: "kill -9, restart", Weight: 3, Do: func(a *Act) error {
			t.server.Kill()
			a.Last(0, a.TTL)
			return t.up()
		}},
		Fault{Kind: "orderly restart", Weight: 2, Do: func(a *Act) error {
			t.server.Signal(syscall.SIGCONT)
			t.server.Signal(syscall.SIGINT)
			t.server.Wait(5 * time.Second)
			t.server.Kill()
			return t.up()
		}},
		Fault{Kind: "kill -9 of a backend", Weight: 3, Do: func(a *Act) error {
			if all := t.children(); len(all) > 0 {
				syscall.Kill(all[a.Rand.IntN(len(all))], syscall.SIGKILL)
			}
			a.Last(0, a.TTL/2)
			return t.up()
		}},
		Fault{Kind: "a backend stops and continues", Weight: 2, Do: func(a *Act) error {
			all := t.children()
			if len(all) == 0 {
				return nil
			}
			pid := all[a.Rand.IntN(len(all))]
			syscall.Kill(pid, syscall.SIGSTOP)
			a.Last(a.TTL/20, 2*a.TTL)
			syscall.Kill(pid, syscall.SIGCONT)
			return nil
		}},
		Fault{Kind: "the server stops and continues", Weight: 2, Do: func(a *Act) error {
			t.signal(syscall.SIGSTOP)
			a.Last(a.TTL/20, 2*a.TTL)
			t.signal(syscall.SIGCONT)
			return nil
		}},
		Fault{Kind: "kill -9 of PgBouncer", Do: func(a *Act) error {
			t.pooler.Kill()
			a.Last(0, a.TTL)
			return t.up()
		}},
	)
}
