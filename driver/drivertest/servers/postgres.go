// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postgres is a PostgreSQL server, for the user pawl and the database postgres. It does
// not run as root: then it is of the user postgres, and so are its files.
type Postgres struct {
	Server
	Args []string // more settings
	bin  string
	as   *syscall.Credential // nil: as we are
}

// PostgresBin returns the directory of the newest server's programs.
func PostgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return len(a) - len(b) })), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("%w: apt-get install postgresql", err)
	}
	return filepath.Dir(path), nil
}

// BeginPostgres starts a server with more settings in args, and waits until it serves. Its
// files are in a directory of its own, which End leaves to the caller.
func BeginPostgres(dir string, run func(*exec.Cmd) error, args ...string) (*Postgres, error) {
	p, err := newPostgres(dir, run, args)
	if err != nil {
		return nil, err
	}
	if err := p.initialize(); err != nil {
		return nil, err
	}
	return p, p.Begin()
}

// postgresFiles names an environment variable with a directory, where the files of a new
// server are kept and copied: to make them takes longer than most tests. All copies have the
// system identifier of the first: a test of two servers that are not the same must not set it.
const postgresFiles = "PAWL_POSTGRES_FILES"

// initialize makes the files.
func (p *Postgres) initialize() error {
	files := os.Getenv(postgresFiles)
	made := filepath.Join(files, "postgres-"+filepath.Base(filepath.Dir(p.bin)))
	if files != "" {
		if copyFiles(made, p.Dir) == nil {
			return nil
		}
		_ = os.RemoveAll(p.Dir) // half a copy
	}
	err := p.tool("initdb", "-D", p.Dir, "-U", "pawl", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if err == nil && files != "" {
		// Without them the next server makes its own.
		mine := made + "-" + filepath.Base(filepath.Dir(p.Dir))
		if errors.Join(os.MkdirAll(files, 0o777), copyFiles(p.Dir, mine)) != nil || os.Rename(mine, made) != nil {
			_ = os.RemoveAll(mine) // or another was faster
		}
	}
	return err
}

// copyFiles keeps their owner.
func copyFiles(from, to string) error { return exec.Command("cp", "-a", from, to).Run() }

func newPostgres(dir string, run func(*exec.Cmd) error, args []string) (*Postgres, error) {
	bin, err := PostgresBin()
	if err != nil {
		return nil, err
	}
	p := &Postgres{Args: args, bin: bin}
	top, err := os.MkdirTemp(dir, "pawl-postgres-")
	if err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if p.as, err = give(top, "postgres"); err != nil {
			return nil, err
		}
	}
	p.Dir, p.Run, p.often = filepath.Join(top, "data"), run, 20*time.Millisecond
	p.command = func() (*exec.Cmd, error) {
		host, port, err := net.SplitHostPort(p.Addr)
		if err != nil {
			return nil, err
		}
		args := []string{"-D", p.Dir, "-k", top, "-h", host, "-p", port,
			"-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c", "log_min_messages=warning", "-c", "log_statement=none"}
		cmd := exec.Command(filepath.Join(p.bin, "postgres"), append(args, p.Args...)...)
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: p.as}, top
		return cmd, nil
	}
	p.serves = func() bool {
		host, port, _ := net.SplitHostPort(p.Addr)
		return exec.Command(filepath.Join(p.bin, "pg_isready"), "-q", "-h", host, "-p", port).Run() == nil
	}
	return p, nil
}

// give gives a directory to another user, and returns how to be that one.
func give(dir, name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}

// tool runs one of PostgreSQL's programs as the server's user.
func (p *Postgres) tool(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Pdeathsig: syscall.SIGKILL}
	cmd.Dir = filepath.Dir(p.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// URL returns the URL for a user of the server.
func (p *Postgres) URL(user string) string {
	return "postgres://" + user + "@" + p.Addr + "/postgres?sslmode=disable"
}

// SQL runs statements as the owner, and returns their output without decoration.
func (p *Postgres) SQL(statements string) (string, error) {
	out, err := exec.Command(filepath.Join(p.bin, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements, p.URL("pawl")).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("psql: %w\n%s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// Replica starts a streaming replica of the server with more settings in args, and waits
// until it serves.
func (p *Postgres) Replica(dir, name string, args ...string) (*Postgres, error) {
	r, err := newPostgres(dir, p.Run, args)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(p.Addr)
	if err := r.tool("pg_basebackup", "-D", r.Dir, "-h", host, "-p", port, "-U", "pawl", "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return nil, err
	}
	// Of two settings the last one counts: that in args.
	r.Args = append([]string{"-c", "cluster_name=" + name, "-c", fmt.Sprintf("primary_conninfo=host=%s port=%s user=pawl application_name=%s", host, port, name)}, args...)
	return r, r.Begin()
}

// Promote makes a primary of a replica.
func (p *Postgres) Promote() error { return p.tool("pg_ctl", "promote", "-w", "-D", p.Dir) }

// StartPostgres starts a server that ends with the test. Its files are in memory: a
// commit that is on disk takes no longer than one that is not.
func StartPostgres(t T, args ...string) *Postgres {
	t.Helper()
	p, err := BeginPostgres(Memory(), nil, args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.Remove)
	return p
}

// End stops the server for good. A killed one would leave shared memory, of which a machine
// has four thousand pieces.
func (p *Postgres) End() {
	if p.Alive() {
		pid := p.Pid()
		_ = syscall.Kill(pid, syscall.SIGCONT)
		_ = syscall.Kill(pid, syscall.SIGQUIT)
		Eventually(5*time.Second, func() bool { return !p.Alive() })
	}
	p.Server.End()
}

// Remove ends the server and removes its files.
func (p *Postgres) Remove() {
	p.End()
	// The server's children notice a little later that it has ended.
	Eventually(5*time.Second, func() bool { return os.RemoveAll(filepath.Dir(p.Dir)) == nil })
}

// Memory is a directory in memory, or that for temporary files.
func Memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}
