// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// PgBouncer is a connection pooler in transaction mode, in front of a PostgreSQL server. It serves the
// user pawl.
type PgBouncer struct{ Server }

// StartPgBouncer starts a pooler for p that ends with the test. settings has more settings.
func StartPgBouncer(t T, p *Postgres, settings string) *PgBouncer {
	t.Helper()
	b, err := NewPgBouncer(p, settings)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(b.Remove)
	if err := b.Begin(); err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

// NewPgBouncer returns a pooler that is not started yet.
func NewPgBouncer(p *Postgres, settings string) (*PgBouncer, error) {
	dir, err := os.MkdirTemp("", "pawl-pgbouncer-")
	if err != nil {
		return nil, err
	}
	var as *syscall.Credential
	if os.Getuid() == 0 {
		if as, err = give(dir, "postgres"); err != nil {
			return nil, err
		}
	}
	b := new(PgBouncer)
	b.Dir, b.often = dir, 20*time.Millisecond
	b.command = func() (*exec.Cmd, error) {
		host, port, err := net.SplitHostPort(b.Addr)
		if err != nil {
			return nil, err
		}
		toHost, toPort, err := net.SplitHostPort(p.Addr)
		if err != nil {
			return nil, err
		}
		conf := filepath.Join(dir, "pgbouncer.ini")
		text := fmt.Sprintf("[databases]\npostgres = host=%s port=%s user=pawl\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\nunix_socket_dir =\n"+
			"auth_type = any\npool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = 5\nserver_login_retry = 0.1\n%s\n", toHost, toPort, host, port, settings)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			return nil, err
		}
		cmd := exec.Command("pgbouncer", "-q", conf)
		if cmd.Err != nil { // Debian installs it in /usr/sbin, which may not be in $PATH
			cmd = exec.Command("/usr/sbin/pgbouncer", "-q", conf)
		}
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: as}, dir
		return cmd, nil
	}
	b.serves = func() bool {
		host, port, _ := net.SplitHostPort(b.Addr)
		return exec.Command(filepath.Join(p.bin, "pg_isready"), "-q", "-h", host, "-p", port).Run() == nil
	}
	return b, nil
}

// Remove ends the pooler and removes its files.
func (b *PgBouncer) Remove() {
	b.End()
	_ = os.RemoveAll(b.Dir)
}

// URL returns the URL of the database through the pooler.
func (b *PgBouncer) URL() string { return "postgres://pawl@" + b.Addr + "/postgres?sslmode=disable" }
