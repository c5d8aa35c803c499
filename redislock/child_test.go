// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// childEnv makes this program a client in a process of its own, which uses the
// server with this URL and does what the lines on its stdin say, until they end.
const childEnv = "REDISLOCK_CHILD"

const childTTL = 2 * time.Second

// childTTLEnv is the TTL of such a process, and its MaxTTL, if that is another one.
const childTTLEnv = "REDISLOCK_CHILD_TTL"

// childKeepEnv is for how long such a process keeps what nobody uses, if it is set. Then it
// pauses now and then.
const childKeepEnv = "REDISLOCK_CHILD_KEEP"

// child is such a process, as its parent sees it.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when there will be none
}

func startChild(t testing.TB, url string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	c.cmd.Env = append(append(os.Environ(), childEnv+"="+url, "GORACE=atexit_sleep_ms=0"), env...)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c
}

// kill kills the process and returns when it has ended.
func (c *child) kill() {
	c.cmd.Process.Kill()
	for range c.lines { // before Wait, which closes the pipe
	}
	c.cmd.Wait()
}

// signal sends a signal, and waits until each thread of a process that it stops has stopped:
// one may hear and say something before.
func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	c.cmd.Process.Signal(s)
	if s == syscall.SIGSTOP && !eventually(patience, c.stopped) {
		c.t.Fatal("the process does not stop")
	}
}

// stopped reports whether all of the process stands still.
func (c *child) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
	for _, stat := range threads {
		b, _ := os.ReadFile(stat)
		if _, state, _ := strings.Cut(string(b), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}

func (c *child) say(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads the next line, which must be of the given form.
func (c *child) hear(format string, into ...any) {
	c.t.Helper()
	select {
	case line := <-c.lines:
		if n, err := fmt.Sscanf(line, format, into...); n != len(into) || len(into) == 0 && line != format {
			c.t.Fatalf("a process says %q; want %q (%v)", line, format, err)
		}
	case <-time.After(time.Minute):
		c.t.Fatalf("a process does not say %q", format)
	}
}

// childMain is the process.
func childMain(url string) {
	opts := &Options{MaxTTL: time.Minute}
	opts.TTL = childTTL
	if ttl, err := time.ParseDuration(os.Getenv(childTTLEnv)); err == nil {
		opts.TTL, opts.MaxTTL = ttl, ttl
	}
	open := func() (driver.Store, error) { return NewStore(context.Background(), url, opts) }
	d, err := open()
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := pawl.New(d, &opts.Options)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &childProcess{open: open, c: c}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		p.do(strings.Fields(lines.Text()))
	}
	p.cancel()
	c.Close()
}

type childProcess struct {
	open   func() (driver.Store, error)
	queued *participant.Participant
	c      *pawl.Client
	ctx    context.Context
	cancel context.CancelFunc
	lease  *pawl.Lease
	turns  []func() (int, string)
	last   atomic.Value // id of the lease that the store granted last
	race   *race
}

// do does what one line says, on the lock "deploy".
func (p *childProcess) do(words []string) {
	switch words[0] {
	case "acquire", "read": // with a TTL; prints a line when it has the lock
		ttl, _ := time.ParseDuration(words[1])
		opts := []pawl.Option{pawl.TTL(ttl)}
		if words[0] == "acquire" {
			opts = append(opts, p.keep()...)
		}
		if words[0] == "read" {
			opts = append(opts, pawl.Shared())
		}
		l, err := p.c.Acquire(p.ctx, "deploy", opts...)
		if err != nil {
			fmt.Println(err)
			return
		}
		p.lease = l
		fmt.Println("got", l.Token())
	case "release":
		fmt.Println("released", p.lease.Release(p.ctx))
	case "wait": // this many wait in the server's queue, and release at once
		var n int
		fmt.Sscan(words[1], &n)
		if p.queued == nil {
			d, err := p.open()
			if err != nil {
				fmt.Println(err)
				return
			}
			p.queued = participant.New(d, participant.Options{})
		}
		for range n {
			go p.waitInQueue()
		}
	case "turns": // this many take turns until stop, and check the file
		p.takeTurns(words[1], words[2])
	case "compete": // this many take turns until stop, and record their tokens; prints a line when they have that many
		p.compete(words[1], words[2])
	case "record": // ends that, and writes what was noted to the file
		p.cancel()
		fmt.Println("recorded", p.race.record(words[1]))
	case "believe": // takes turns until stop, and prints for each when it was trusted, and its token
		go p.believe()
	case "stop":
		p.cancel()
		n, wrong := 0, "nothing"
		for _, end := range p.turns {
			m, what := end()
			n += m
			if what != "" {
				wrong = what
			}
		}
		fmt.Println("turns", n, wrong)
	}
}

func (p *childProcess) waitInQueue() {
	g, err := p.queued.Acquire(p.ctx, long("deploy"))
	if err == nil {
		err = g.Release(p.ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("got", g.Token())
}

func (p *childProcess) takeTurns(count, file string) {
	var n int
	fmt.Sscan(count, &n)
	for range n {
		var turns int
		var wrong string
		var done sync.WaitGroup
		done.Go(func() { turns, wrong = p.turn(file) })
		p.turns = append(p.turns, func() (int, string) { done.Wait(); return turns, wrong })
	}
}

func (p *childProcess) keep() []pawl.Option {
	if d, err := time.ParseDuration(os.Getenv(childKeepEnv)); err == nil {
		return []pawl.Option{pawl.KeepIdle(d)}
	}
	return nil
}

// turn acquires and releases until the process is to stop. What the file says is
// guarded by the lock alone: the token of the last holder, and if it is in or out.
func (p *childProcess) turn(file string) (turns int, wrong string) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err.Error()
	}
	defer f.Close()
	for p.ctx.Err() == nil {
		l, err := p.c.Acquire(p.ctx, "deploy", append(p.keep(), pawl.TTL(time.Minute))...) // no pause is as long
		if err != nil {
			if p.ctx.Err() == nil && !unanswered(err) {
				wrong = err.Error()
			}
			continue
		}
		if what := visit(f, l.Token()); what != "" && l.Err() == nil {
			wrong = what
		}
		if p.last.Swap(l.ID()) != l.ID() { // else it was passed on, in the same turn
			turns++
		}
		if err := l.Release(context.Background()); err != nil && !unanswered(err) {
			wrong = err.Error()
		}
		if p.keep() != nil && rand.N(20) == 0 {
			time.Sleep(rand.N(20 * time.Millisecond))
		}
	}
	return turns, strings.ReplaceAll(wrong, " ", "_")
}

// unanswered reports whether the server has not answered, as on a machine that is busy.
func unanswered(err error) bool {
	return errors.Is(err, pawl.ErrUnavailable) || errors.Is(err, pawl.ErrUncertain)
}

// visit writes to the file that it is in, and then out. It returns what is wrong with
// the entry of the last holder.
func visit(f *os.File, token pawl.Token) (wrong string) {
	buf := make([]byte, 24)
	n, _ := f.ReadAt(buf, 0)
	var last pawl.Token
	var state string
	fmt.Sscan(string(buf[:n]), &last, &state)
	if state == "in" {
		wrong = fmt.Sprintf("%d comes while %d is in", token, last)
	} else if last >= token {
		wrong = fmt.Sprintf("token %d after %d", token, last)
	}
	fmt.Fprintf(io.NewOffsetWriter(f, 0), "%-20d in  ", token)
	fmt.Fprintf(io.NewOffsetWriter(f, 0), "%-20d out ", token)
	return wrong
}
