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
)

// pgServer is a PostgreSQL server. PostgreSQL refuses to run as root, and its user may not be able
// to read the folder of the run, so the server has a folder elsewhere.
type pgServer struct {
	Process
	addr string
	port string
	bin  string
	as   []string // the words before a program that make it run as the server's user
}

func newPGServer(settings ...string) (*pgServer, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		return nil, errors.New("there is no PostgreSQL: apt-get install postgresql pgbouncer")
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	p := &pgServer{addr: "127.0.0.1:" + ports[0], port: ports[0], bin: found[len(found)-1]}
	if p.Dir, err = os.MkdirTemp("", "pawl-chaos-postgres"); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(p.Dir, uid, gid); err != nil {
			return nil, err
		}
		p.as = []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--pdeathsig=KILL"}
	}
	p.Args = append(p.theirs("postgres"), "-D", p.data(), "-k", p.Dir, "-h", "127.0.0.1", "-p", p.port,
		"-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "log_min_messages=fatal")
	for _, s := range settings {
		p.Args = append(p.Args, "-c", s)
	}
	return p, nil
}

func (p *pgServer) data() string { return filepath.Join(p.Dir, "data") }

// theirs returns the command line that runs a program of PostgreSQL as the server's user.
func (p *pgServer) theirs(program string) []string {
	return append(p.as[:len(p.as):len(p.as)], filepath.Join(p.bin, program))
}

// tool runs a program as the server's user.
func (p *pgServer) tool(program string, args ...string) error {
	all := append(p.theirs(program), args...)
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Dir = p.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

func (p *pgServer) initdb() error {
	return p.tool("initdb", "-D", p.data(), "-U", "pawl", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
}

// sql runs a statement, and returns the answer.
func (p *pgServer) sql(statement string) (string, error) {
	out, err := exec.Command(filepath.Join(p.bin, "psql"), "-X", "-A", "-t", "-q", "-c", statement,
		"host=127.0.0.1 user=pawl dbname=postgres connect_timeout=3 port="+p.port).Output()
	return strings.TrimSpace(string(out)), err
}

// begin starts the server unless it runs, and returns an error if it does not serve yet. After a
// kill, child processes may keep the shared memory for a moment, and the start fails. So up
// calls begin again and again.
func (p *pgServer) begin() error {
	if err := p.Start(); err != nil {
		return err
	}
	return serving(p.bin, p.addr)
}

func (p *pgServer) up() error { return await("PostgreSQL at "+p.addr, start, p.begin) }

// serving returns an error unless the server or the pooler at an address serves.
func serving(bin, addr string) error {
	host, port, _ := net.SplitHostPort(addr)
	return exec.Command(filepath.Join(bin, "pg_isready"), "-q", "-t", "2", "-h", host, "-p", port).Run()
}

// end shuts the server down as an administrator does, so that replicas get everything that is
// committed.
func (p *pgServer) end() {
	p.signal(syscall.SIGCONT)
	p.Signal(syscall.SIGINT)
	p.Wait(5 * time.Second)
	p.Kill()
}

// children returns the ids of the server's child processes.
func (p *pgServer) children() (all []int) {
	if p.PID() == 0 {
		return nil
	}
	mine := strconv.Itoa(p.PID())
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

// signal sends a signal to the server and its children, and returns the children.
func (p *pgServer) signal(s syscall.Signal) []int {
	p.Signal(s)
	all := p.children()
	signal(all, s)
	return all
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, s)
	}
}

// destroy kills the server and its children. Stopped children would survive the server.
func (p *pgServer) destroy() {
	all := p.children()
	p.Kill()
	signal(all, syscall.SIGKILL)
}

// remove ends the server for good. It sends QUIT first, because a killed server leaves a shared
// memory segment, and the machine allows only about 4,000. The children end a little later.
func (p *pgServer) remove() {
	p.signal(syscall.SIGCONT)
	p.Signal(syscall.SIGQUIT)
	p.Wait(5 * time.Second)
	p.destroy()
	for range 50 {
		if os.RemoveAll(p.Dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// pgFaults returns faults of the server that draw returns. up starts it again.
func pgFaults(draw func() *pgServer, up func() error) []Fault {
	return []Fault{
		{Kind: "kill -9, restart", Weight: 3, Do: func(a *Act) error {
			draw().Kill()
			a.Last(0, a.TTL)
			return up()
		}},
		{Kind: "orderly restart", Weight: 2, Do: func(a *Act) error {
			draw().end()
			return up()
		}},
		{Kind: "kill -9 of a backend", Weight: 3, Do: func(a *Act) error {
			if all := draw().children(); len(all) > 0 {
				syscall.Kill(all[a.Rand.IntN(len(all))], syscall.SIGKILL)
			}
			a.Last(0, a.TTL/2)
			return up()
		}},
		{Kind: "a backend stops and continues", Weight: 2, Do: func(a *Act) error {
			all := draw().children()
			if len(all) == 0 {
				return nil
			}
			pid := all[a.Rand.IntN(len(all))]
			syscall.Kill(pid, syscall.SIGSTOP)
			a.Last(a.TTL/20, 2*a.TTL)
			syscall.Kill(pid, syscall.SIGCONT)
			return nil
		}},
		{Kind: "the server stops and continues", Weight: 2, Do: func(a *Act) error {
			// Another fault may kill the server meanwhile, so continue the children in any case. Stopped children would
			// keep the shared memory, and a new server could not start with the same data.
			p := draw()
			children := p.signal(syscall.SIGSTOP)
			a.Last(a.TTL/20, 2*a.TTL)
			p.signal(syscall.SIGCONT)
			signal(children, syscall.SIGCONT)
			return nil
		}},
	}
}
