// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree is a command with descendants of all kinds: one that ignores TERM, one
// in a session of its own, one that has neither parent, session nor
// environment in common. Each appends its process id to the file "pids".
const tree = `
cat >stubborn <<'X'
trap '' TERM
echo $$ >>pids
while :; do sleep 0.05; done
X
sh stubborn &
setsid sh -c 'echo $$ >>pids; exec sleep 1000' &
(setsid env -i /bin/sh -c 'echo $$ >>pids; exec /bin/sleep 1000' &)
while test $(grep -c . pids) -lt 3; do sleep 0.01; done
touch in
wait`

// noneAlive is a command that prints those of the tree that live. Zombies,
// whose files are closed, do not.
const noneAlive = `for p in $(cat pids); do grep -q ') [^ZX] ' /proc/$p/stat 2>/dev/null && echo $p; done; true`

func TestBreakEndsEverything(t *testing.T) {
	w := newWorld(t)
	w.create("pids")
	first := w.pawl("run", "x", "--grace", "500ms", "--", "sh", "-c", tree)
	w.appears("in")
	next := w.pawl("run", "-q", "x", "sh", "-c", noneAlive)
	b := w.pawl("break", "x", "--force", "--why", "it hangs")
	b.end(0)
	first.end(exitLost)
	next.end(0)
	if strings.TrimSpace(next.stdout()) != "" {
		t.Errorf("alive when the next holder ran: %q", next.stdout())
	}
	if got := first.stderr(); !strings.HasPrefix(got, "pawl: lost: ") || !strings.Contains(got, "it hangs") {
		t.Errorf("stderr %q", got)
	}
}

func TestMaxHold(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	p := w.pawl("run", "x", "--max-hold", "2s", "--grace", "800ms", "--", "sh", "-c",
		`trap 'date +%s.%N >term' TERM; while :; do sleep 0.02; done`)
	p.end(exitLost)
	if d := time.Since(began); d < time.Second || d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	if !w.exists("term") || !strings.Contains(p.stderr(), "--max-hold") {
		t.Errorf("TERM told: %v; stderr %q", w.exists("term"), p.stderr())
	}
}

// The wrapper is stopped past the deadline: the guard acts.
func TestStoppedWrapper(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--max-hold", "2s", "--grace", "500ms", "--", "sh", "-c",
		`trap '' TERM; echo $$ >pid; touch in; while :; do sleep 0.02; done`)
	w.appears("in")
	p.signal(syscall.SIGSTOP)
	// Its zombie stays: the wrapper cannot reap it.
	pid := strings.TrimSpace(w.read("pid"))
	w.until("the command is dead", func() bool {
		b, _ := os.ReadFile("/proc/" + pid + "/stat")
		return strings.Contains(string(b), ") Z ")
	})
	p.signal(syscall.SIGCONT)
	p.end(exitLost)
}

// The command has thrown away its environment: its group must be known.
func TestKilledWrapper(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "env", "-i", "/bin/sh", "-c",
		`trap 'touch termed; while ! test -e out; do sleep 0.02; done; touch finished; exit' TERM; touch in; while :; do sleep 0.02; done`)
	w.appears("in")
	next := w.pawl("run", "-q", "x", "test", "-e", "finished")
	p.signal(syscall.SIGKILL)
	w.appears("termed")
	if !w.busy("x") || next.ended() {
		t.Error("free while the work goes on")
	}
	w.create("out")
	next.end(0)
}

// As TestBreakEndsEverything, but nobody is left to do it except the guard. It
// does not find what has left group, session and environment.
func TestKilledWrapperEndsEverything(t *testing.T) {
	w := newWorld(t)
	w.create("pids")
	p := w.pawl("run", "x", "--grace", "300ms", "--", "sh", "-c", strings.Replace(tree, "env -i", "env", 1))
	w.appears("in")
	next := w.pawl("run", "-q", "x", "sh", "-c", noneAlive)
	p.signal(syscall.SIGKILL)
	next.end(0)
	if strings.TrimSpace(next.stdout()) != "" {
		t.Errorf("alive when the next holder ran: %q", next.stdout())
	}
	w.noneLeft()
}

// The wrapper dies at any moment of its start.
func TestKilledWrapperAtStart(t *testing.T) {
	w := newWorld(t)
	for i := range 40 {
		p := w.pawl("run", fmt.Sprint("x", i%8), "--grace", "100ms", "sleep", "1000")
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		p.signal(syscall.SIGKILL)
	}
	w.noneLeft()
}
