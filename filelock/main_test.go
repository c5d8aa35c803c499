// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// The test binary is also every other process of these tests: with helperEnv
// set it does what its arguments say, and talks by lines.
const helperEnv = "FILELOCK_TEST_HELPER"

func TestMain(m *testing.M) {
	lookEvery = 500 * time.Millisecond
	if os.Getenv(helperEnv) == "" {
		flag.Parse()
		drivertest.Parallel()
		os.Exit(m.Run())
	}
	d, err := NewStore(os.Args[2], &Options{AllowShared: os.Args[1] == "look"})
	if err != nil {
		panic(err)
	}
	h := &helper{s: clientOf(d), name: os.Args[3], args: os.Args[4:], in: bufio.NewReader(os.Stdin)}
	helpers[os.Args[1]](h)
}

type helper struct {
	s    client
	name string
	args []string
	in   *bufio.Reader
}

var helpers = map[string]func(*helper){
	"hold":    (*helper).hold,
	"obey":    (*helper).obey,
	"turn":    (*helper).turn,
	"inherit": (*helper).inherit,
	"full":    (*helper).full,
	"mix":     (*helper).mix,
	"look":    (*helper).look,
	"sleep":   func(h *helper) { h.in.ReadString('\n') },
}

func (h *helper) acquire() (*participant.Lease, *driver.Request) {
	kind := ""
	if len(h.args) > 0 {
		kind = h.args[0]
	}
	req := asked(h.name, kind) // exclusive unless it is the name of a kind
	req.Holder = &driver.Holder{Who: "test", Host: host(), PID: os.Getpid(), Space: driver.PIDSpace()}
	g, err := h.s.Acquire(context.Background(), req)
	if err != nil {
		panic(err)
	}
	return g, req
}

// hold holds the lock from "held TOKEN LEASE" until it gets a line.
func (h *helper) hold() {
	for {
		g, req := h.acquire()
		fmt.Println("held", g.Token(), req.Lease)
		if _, err := h.in.ReadString('\n'); err != nil {
			return
		}
		if err := g.Release(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println("released")
		if _, err := h.in.ReadString('\n'); err != nil {
			return
		}
	}
}

// obey holds the lock until it is asked to let go.
func (h *helper) obey() {
	g, req := h.acquire()
	g.OnLost(func(err error) {
		fmt.Println("lost", err)
		g.Release(context.Background())
	})
	fmt.Println("held", g.Token(), req.Lease)
	h.in.ReadString('\n')
}

// turn notes its number when it has the lock.
func (h *helper) turn() {
	g, _ := h.acquire()
	f, _ := os.OpenFile(h.args[0], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	fmt.Fprintln(f, os.Getpid())
	g.Release(context.Background())
}

// inherit gives its files to a child that ends with its standard input.
func (h *helper) inherit() {
	g, req := h.acquire()
	child := command("sleep", h.s.dir, h.name)
	child.Stdin = os.Stdin
	child.ExtraFiles = g.Files()
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println("held", g.Token(), req.Lease)
	if slices.Contains(h.args, "release") { // let go, and leave the lock to the child
		fmt.Println(g.Release(context.Background()))
	}
	select {}
}

// full finds that nothing can be written.
func (h *helper) full() {
	signal.Ignore(syscall.SIGXFSZ)
	unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: 1 << 20})
	_, err := h.s.TryAcquire(context.Background(), request(h.name))
	fmt.Println(err)
	unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	_, err = h.s.TryAcquire(context.Background(), request(h.name))
	fmt.Println(err)
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperEnv+"=1", "GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// proc is a helper process, killed when the test ends.
type proc struct {
	*exec.Cmd
	t     testing.TB
	in    io.WriteCloser
	lines chan string
}

func start(t testing.TB, args ...string) *proc {
	t.Helper()
	return startIn(t, 0, args...)
}

// startIn starts a process in new namespaces.
func startIn(t testing.TB, namespaces uintptr, args ...string) *proc {
	t.Helper()
	p := &proc{Cmd: command(args...), t: t, lines: make(chan string, 100)}
	p.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		p.in.Close() // ends grandchildren
		p.Process.Kill()
		p.Wait()
		<-read
	})
	return p
}

// kill kills the process and returns when it is gone.
func (p *proc) kill() {
	p.Process.Kill()
	p.Process.Wait()
}

func (p *proc) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// say sends a line.
func (p *proc) say(line string) { fmt.Fprintln(p.in, line) }

// line returns the process's next line, which must begin with word.
func (p *proc) line(word string) []string {
	p.t.Helper()
	select {
	case line := <-p.lines:
		if !strings.HasPrefix(line, word) {
			p.t.Fatalf("pid %d says %q; want %q", p.Process.Pid, line, word)
		}
		return strings.Fields(line)
	case <-time.After(patience):
		p.t.Fatalf("pid %d does not say %q", p.Process.Pid, word)
		return nil
	}
}

const patience = 45 * time.Second

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	if !servers.Eventually(patience, f) {
		t.Fatalf("never: %s", what)
	}
}

// fds returns how many files the process has open.
func fds(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
