// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
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
	first.end(exit.Lost)
	next.end(0)
	if strings.TrimSpace(next.stdout()) != "" {
		t.Errorf("alive when the next holder ran: %q", next.stdout())
	}
	first.says("pawl: lost: ", "it hangs")
}

func TestMaxHold(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	p := w.pawl("run", "x", "--max-hold", "6s", "--grace", "2500ms", "--", "sh", "-c",
		`trap 'date +%s.%N >term' TERM; while :; do sleep 0.02; done`)
	p.end(exit.Lost)
	if d := time.Since(began); d < 3*time.Second || d > ample/2 {
		t.Errorf("took %v", d)
	}
	if !w.exists("term") || !strings.Contains(p.stderr(), "--max-hold") {
		t.Errorf("TERM told: %v; stderr %q", w.exists("term"), p.stderr())
	}
}

// stray leaves behind a process that only the wrapper can find.
const stray = `(setsid env -i /bin/sh -c 'echo $$ >>pids; exec /bin/sleep 1000' &) ; while ! test -s pids; do sleep 0.01; done; `

// If it was the guard's TERM that ended the command, or nobody's, and the lease
// is lost, the wrapper still ends what the command has left behind.
func TestNothingLeftAfterLoss(t *testing.T) {
	t.Parallel()
	t.Run("guard", func(t *testing.T) {
		w := newWorld(t)
		var all []*proc // the wrapper may see the deadline first, or the command's end
		for i := range 12 {
			dir := "d" + strconv.Itoa(i)
			all = append(all, w.pawl("run", dir, "--max-hold", "8s", "--grace", "1500ms", "--", "sh", "-c",
				"mkdir "+dir+"; cd "+dir+"; "+stray+`echo $$ >pid; exec sleep 1000`))
		}
		pid := func(i int) string { return w.read("d" + strconv.Itoa(i) + "/pid") }
		for i, p := range all {
			w.until("it runs", func() bool { return strings.HasSuffix(pid(i), "\n") })
			p.signal(syscall.SIGSTOP)
		}
		for i, p := range all {
			w.until("the command is dead", func() bool { return w.isDead(strings.TrimSpace(pid(i))) })
			p.signal(syscall.SIGCONT)
		}
		for i, p := range all {
			p.end(exit.Lost)
			w.noStray("d" + strconv.Itoa(i) + "/pids")
		}
	})
	t.Run("release", func(t *testing.T) {
		w := newWorld(t)
		p := w.pawl("run", "-s", "memory://", "--ttl", "6s", "x", "--", "sh", "-c", stray+"touch cut")
		p.end(exit.Lost)
		w.noStray("pids")
		p.says("the command had ended, and what it had left running was stopped")
	})
}

func (w *world) isZombie(pid string) bool {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	return strings.Contains(string(b), ") Z ")
}

// isDead reports whether a process has ended, and perhaps been reaped.
func (w *world) isDead(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err != nil || w.isZombie(pid)
}

// noStray checks that pawl, which has ended, has not left the stray alive.
func (w *world) noStray(file string) {
	w.Helper()
	pid := strings.TrimSpace(w.read(file))
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	if !w.isDead(pid) {
		w.Errorf("left alive: %s", b)
	}
}

// TestKilledWrapper: the lock is held until the job is empty, also if the command has thrown away its environment, so
// that its group must be known, or has closed the files that are the lock.
func TestKilledWrapper(t *testing.T) {
	t.Parallel()
	const work = `trap 'touch termed; while ! test -e out; do sleep 0.02; done; touch finished; exit' TERM; touch in; while :; do sleep 0.02; done`
	for name, command := range map[string][]string{"environment": {"env", "-i", "/bin/sh", "-c", work}, "files": {"bash", "-c", closing + work}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.pawl(append([]string{"run", "x", "--"}, command...)...)
			w.appears("in")
			next := w.pawl("run", "-q", "x", "test", "-e", "finished")
			p.signal(syscall.SIGKILL)
			w.appears("termed")
			for range 5 { // until next would long have begun
				if !w.busy("x") || next.ended() {
					t.Fatal("free while the work goes on")
				}
			}
			w.free(next)
		})
	}
}

// As TestBreakEndsEverything, but nobody is left to do it except the guard.
func TestKilledWrapperEndsEverything(t *testing.T) {
	w := newWorld(t)
	w.create("pids")
	p := w.pawl("run", "x", "--grace", "300ms", "--", "sh", "-c", tree)
	w.appears("in")
	next := w.pawl("run", "-q", "x", "sh", "-c", noneAlive)
	p.signal(syscall.SIGKILL)
	next.end(0)
	if strings.TrimSpace(next.stdout()) != "" {
		t.Errorf("alive when the next holder ran: %q", next.stdout())
	}
	w.noneLeft()
}

// The wrapper dies at any moment of its start, which some of them outlive: the
// delays are a part of the time that the start takes on this machine now.
func TestKilledWrapperAtStart(t *testing.T) {
	w := newWorld(t)
	start := func(i int) (p *proc, began time.Time) {
		began = time.Now()
		return w.pawl("run", fmt.Sprint("x", i%8), "--grace", "100ms", "sh", "-c", fmt.Sprintf("touch in%d; exec sleep 1000", i)), began
	}
	full, reached := time.Duration(0), 0
	for i := range 32 {
		p, began := start(i)
		if i%8 == 0 {
			w.appears(fmt.Sprint("in", i))
			full = time.Since(began)
			reached++
		} else {
			time.Sleep(full * time.Duration(rand.IntN(130)) / 100)
		}
		p.signal(syscall.SIGKILL)
		if i%8 != 0 && w.exists(fmt.Sprint("in", i)) {
			reached++
		}
	}
	w.noneLeft()
	t.Logf("%d of 32 commands have begun, in %v", reached, full)
}

// Children that pawl's process had before it became pawl are not the command's.
func TestEarlierChildrenStay(t *testing.T) {
	w := newWorld(t)
	p := w.sh(`sh -c 'sleep 1000 & echo $! >pid; wait' & while ! test -s pid; do sleep 0.01; done; exec $P run x --max-hold 1s --grace 300ms sleep 1000`)
	p.end(exit.Lost)
	pid, _ := strconv.Atoi(strings.TrimSpace(w.read("pid")))
	if err := syscall.Kill(pid, 0); err != nil || w.isZombie(strconv.Itoa(pid)) {
		t.Errorf("it was ended (%v)", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}
