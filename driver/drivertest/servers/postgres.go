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

// Postgres is a PostgreSQL server with the user pawl and the database postgres. If we
// are root, the server runs as the system's user postgres, who owns its files, because
// PostgreSQL refuses to run as root.
type Postgres struct {
	Server
	Args []string // more settings
	bin  string
	as   *syscall.Credential // the user that runs it; nil: our own
}

// PostgresBin returns the directory with the programs of the newest PostgreSQL on this machine.
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
// files are in a new directory in dir, which Remove removes and End does not.
func BeginPostgres(dir string, run func(*exec.Cmd) error, args ...string) (*Postgres, error) {
	p, err := NewPostgres(dir, args...)
	if err != nil {
		return nil, err
	}
	p.Run = run
	if err := p.Initialize(); err != nil {
		return nil, err
	}
	return p, p.Begin()
}

// postgresFiles names an environment variable with a directory. There the files of a new
// server are kept, and copied for each later server, because initdb takes longer than most
// tests. All copies have the same system identifier: a test that needs two different servers must not
// set the variable.
const postgresFiles = "PAWL_POSTGRES_FILES"

// Initialize makes the server's files, or copies them.
func (p *Postgres) Initialize() error {
	files := os.Getenv(postgresFiles)
	made := filepath.Join(files, "postgres-"+filepath.Base(filepath.Dir(p.bin)))
	if files != "" {
		if copyFiles(made, p.Dir) == nil {
			return nil
		}
		_ = os.RemoveAll(p.Dir) // the copy may be incomplete
	}
	err := p.tool("initdb", "-D", p.Dir, "-U", "pawl", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if err == nil && files != "" {
		// If this fails, the next server makes its own files.
		mine := made + "-" + filepath.Base(filepath.Dir(p.Dir))
		if errors.Join(os.MkdirAll(files, 0o777), copyFiles(p.Dir, mine)) != nil || os.Rename(mine, made) != nil {
			_ = os.RemoveAll(mine) // perhaps another process has kept its files first
		}
	}
	return err
}

// copyFiles copies a directory, and keeps the owner of the files.
func copyFiles(from, to string) error { return exec.Command("cp", "-a", from, to).Run() }

// NewPostgres returns a server that is not started and has no files yet.
func NewPostgres(dir string, args ...string) (*Postgres, error) {
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
	p.Dir, p.often = filepath.Join(top, "data"), 20*time.Millisecond
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

// give makes the user name the owner of dir. It returns the credential with which processes run as that user.
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

// URL returns the URL with which a user connects.
func (p *Postgres) URL(user string) string {
	return "postgres://" + user + "@" + p.Addr + "/postgres?sslmode=disable"
}

// SQL runs statements as the user pawl, and returns their output without header and alignment.
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
	r, err := NewPostgres(dir, args...)
	if err != nil {
		return nil, err
	}
	r.Run = p.Run
	if err := r.Follow(p.Addr); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(p.Addr)
	// The last of two equal settings counts, so args come last.
	r.Args = append([]string{"-c", "cluster_name=" + name, "-c", fmt.Sprintf("primary_conninfo=host=%s port=%s user=pawl application_name=%s", host, port, name)}, args...)
	return r, r.Begin()
}

// Follow makes the files of a replica of the server at an address. The replica is not started.
func (p *Postgres) Follow(addr string) error {
	host, port, _ := net.SplitHostPort(addr)
	return p.tool("pg_basebackup", "-D", p.Dir, "-h", host, "-p", port, "-U", "pawl", "-R", "-X", "stream", "-c", "fast", "--no-sync")
}

// Promote makes the replica p a primary.
func (p *Postgres) Promote() error { return p.tool("pg_ctl", "promote", "-w", "-D", p.Dir) }

// StartPostgres starts a server that ends with the test. Its files are in memory, so that
// the disk does not delay commits.
func StartPostgres(t T, args ...string) *Postgres {
	t.Helper()
	p, err := BeginPostgres(Memory(), nil, args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.Remove)
	return p
}

// End stops the server for good. It sends QUIT and not KILL: a killed server would leave a shared
// memory segment, and the machine allows only about 4,000.
func (p *Postgres) End() {
	p.Quit(syscall.SIGQUIT, 5*time.Second)
	p.Server.End()
}

// Remove ends the server and removes its files.
func (p *Postgres) Remove() {
	p.End()
	// The server's child processes end a little later, and may still write files.
	Eventually(5*time.Second, func() bool { return os.RemoveAll(filepath.Dir(p.Dir)) == nil })
}

// Memory returns a directory in memory, or "", which means the directory for temporary files.
func Memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}
