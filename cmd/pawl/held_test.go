// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// closing is a beginning of a bash script that closes all descriptors that it
// does not know, as python's subprocess and many daemons do.
const closing = `for f in /proc/$$/fd/*; do n=${f##*/}; if test $n -gt 2; then eval "exec $n>&-"; fi; done; `

// guards returns the process ids of the world's guards.
func (w *world) guards() (pids []int) {
	for _, p := range w.processes() {
		if words := strings.Fields(p); len(words) > 2 && words[2] == "__guard" {
			pid, _ := strconv.Atoi(words[0])
			pids = append(pids, pid)
		}
	}
	return pids
}

// The command's copies are not where scripts open files of their own: without
// wrapper and guard the command still holds the lock.
func TestLockIsOutOfTheWay(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "sh", "-c",
		`exec 3>log 4>log 5>log 6>log 7>log 8>log 9>log; `+holdUntil)
	w.appears("in")
	p.signal(syscall.SIGSTOP) // or it would end the work
	for _, pid := range w.guards() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	if !w.busy("x") {
		t.Error("free while the work goes on")
	}
	w.create("out")
	w.until("free", func() bool { return !w.busy("x") })
}

// The guard holds the lock, and nothing else of the caller's.
func TestFilesOfGuard(t *testing.T) {
	w := newWorld(t)
	p := w.sh(`exec 9>nine; exec $P run x sh -c '` + holdUntil + `'`)
	w.appears("in")
	var open []string
	w.until("the guard has closed what is not its own", func() bool {
		open = nil
		for _, pid := range w.guards() {
			links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
			for _, l := range links {
				to, _ := os.Readlink(l)
				open = append(open, to)
			}
		}
		return len(open) > 0 && !strings.Contains(strings.Join(open, " "), "nine")
	})
	if !strings.Contains(strings.Join(open, " "), w.dir+"/locks/") {
		t.Errorf("the guard has open: %q", open)
	}
	w.free(p)
}

// The lock is free as soon as pawl has ended.
func TestFreeAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.sh(`for i in 1 2 3 4 5 6 7 8; do $P run -n x true || exit 9; done`)
	p.end(0)
}

// Nobody reads stderr: the command runs all the same, and signals work.
func TestStuckStderr(t *testing.T) {
	w := newWorld(t)
	first := w.holds("x")
	waiter := func(events string) *exec.Cmd {
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		defer wr.Close()
		// A descriptor that blocks, which Fd makes it, of a pipe without space.
		if _, err := unix.FcntlInt(r.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
			t.Fatal(err)
		}
		_, _ = wr.Write(make([]byte, 4096))
		c := exec.Command(w.exe, "run", "--events", events, "x", "touch", "ran")
		c.Env, c.Dir, c.Stderr = w.env(), w.dir, wr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	runs, ends := waiter("ev1"), waiter("ev2")
	w.until("both wait", func() bool {
		return strings.Contains(w.read("ev1"), "waiting") && strings.Contains(w.read("ev2"), "waiting")
	})
	_ = ends.Process.Signal(syscall.SIGTERM)
	for _, c := range []struct {
		*exec.Cmd
		want string
	}{{ends, "143"}, {runs, "0"}} {
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		select {
		case err := <-done:
			if got := exitCode(err); got != c.want {
				t.Errorf("exit code %s, want %s", got, c.want)
			}
		case <-time.After(ample):
			t.Errorf("does not end, want exit code %s", c.want)
			_ = c.Process.Kill()
		}
		w.create("out")
	}
	first.end(0)
}

// The guard of an outer run finds the command of an inner one, which has a
// group and a lease of its own.
func TestNestedEndsWithOuter(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "-s", "memory://", "--grace", "300ms", "outer", "--",
		w.exe, "run", "-s", "file://"+w.dir+"/locks", "inner", "--ttl", "6m", "--grace", "2m", "--", "bash", "-c",
		`trap '' TERM; echo $$ >pid; touch in; while :; do sleep 0.02; done`)
	w.appears("in")
	p.signal(syscall.SIGKILL)
	w.until("the inner command is gone", func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(w.read("pid")))
		return err != nil
	})
}

// A command that takes its own lock once more would wait for itself.
func TestNestedSameName(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", w.exe, "run", "y", "--", w.exe, "run", "x", "true")
	p.end(exit.Busy, `pawl: busy: "x": the surrounding pawl run already holds it (pid `)
	w.pawl("run", "x", "--", w.exe, "run", "-s", "file://"+w.dir+"/other", "x", "true").end(0)
}

// A process that pawl may not signal keeps the lock.
func TestProcessOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	w := newWorld(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv")
	}
	program, err := filepath.EvalSymlinks(w.exe)
	if err != nil {
		t.Fatal(err)
	}
	s := w.sh(`mkdir b && cp ` + program + ` b/pawl && cp ` + setpriv + ` su && chmod 4755 su && chmod 711 .. && chmod 777 . && chown 65534 locks`)
	s.end(0)
	p := w.sh(`exec setpriv --reuid 65534 --regid 65534 --clear-groups ./b/pawl run x --max-hold 1s --grace 300ms -- ./su --reuid 0 sh -c 'touch here; while ! test -e out; do sleep 0.02; done'`)
	w.until("pawl gives up", func() bool { return strings.Contains(p.stderr(), "stays locked") })
	if !w.exists("here") || p.ended() || !w.heldByOther() {
		t.Errorf("command runs: %v, pawl has ended: %v, held: %v", w.exists("here"), p.ended(), w.heldByOther())
	}
	w.create("out")
	p.end(exit.Lost)
}

// heldByOther reports whether the user nobody would find the lock held.
func (w *world) heldByOther() bool {
	p := w.sh(`exec setpriv --reuid 65534 --regid 65534 --clear-groups ./b/pawl run -n x true`)
	<-p.done
	return exitCode(p.err) == strconv.Itoa(exit.Busy)
}
