// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// leftoverStores are a store without a server, where a child may keep the lock by the files that it
// inherits, and one where it cannot.
var leftoverStores = map[string]func(*world) string{
	"file":  func(w *world) string { return "file://" + w.dir + "/locks" },
	"redis": func(w *world) string { return w.blessed("redis://" + startRedis(w.T)) },
}

// leaving are commands that end at once and leave work running, until "out" exists. It is over when
// "over" exists.
var leaving = map[string]string{
	"plain":  `(` + leftWork + `) &`,
	"closed": closing + `(` + leftWork + `) &`,
	"setsid": `setsid bash -c '` + leftWork + `' &`,
	"empty environment": `(setsid env -i /bin/bash -c 'for f in /proc/$$/fd/*; do n=${f##*/}; if test $n -gt 2; then eval "exec $n>&-"; fi; done; cd '$W'; ` +
		leftWork + `' &);`,
}

const leftWork = `touch in; while test -e in && ! test -e out; do sleep 0.02; done; sleep 0.2; touch over`

func eachLeaving(t *testing.T, f func(w *world, store, command string)) {
	t.Parallel()
	for storeName, store := range leftoverStores {
		for name, command := range leaving {
			t.Run(storeName+"/"+name, func(t *testing.T) {
				w := newWorld(t)
				f(w, store(w), command)
			})
		}
	}
}

// TestLeftovers: whatever the command leaves running keeps the lock until it has ended, on every
// store, and pawl says so.
func TestLeftovers(t *testing.T) {
	eachLeaving(t, func(w *world, store, command string) {
		first := w.pawl("run", "-s", store, "--ttl", "10s", "--events", "ev", "x", "--", "bash", "-c", command+" exit 3")
		w.appears("in")
		next := w.pawl("run", "-q", "-s", store, "--ttl", "10s", "x", "test", "-e", "over")
		w.until("pawl says what it waits for", func() bool { return strings.Contains(first.stderr(), "stays locked until") || first.ended() })
		w.free(next)
		first.end(3)
		if got := first.stderr(); !strings.Contains(got, " (bash)") && !strings.Contains(got, " (sleep)") {
			w.Errorf("stderr is %q; want what was left running", got)
		}
		if got := w.read("ev"); !strings.Contains(got, `"event":"leftovers"`) || !strings.Contains(got, `"left":[{"pid":`) {
			w.Errorf("the events are %s", got)
		}
	})
}

// TestLeftoversOfAKilledWrapper: they are ended when pawl is killed, in time for the next holder.
func TestLeftoversOfAKilledWrapper(t *testing.T) {
	eachLeaving(t, func(w *world, store, command string) {
		first := w.pawl("run", "-s", store, "--ttl", "6s", "--grace", "300ms", "x", "--", "bash", "-c", "echo $$ >pid; "+command+" wait; sleep 1000")
		w.appears("in")
		left := w.others(first)
		if len(left) < 2 {
			w.Fatalf("the job is %d; want the command and what it has started", left)
		}
		next := w.pawl("run", "-q", "-s", store, "--ttl", "10s", "x", "--", "sh", "-c", noneOf(left))
		first.signal(syscall.SIGKILL)
		next.end(0)
		if got := strings.TrimSpace(next.stdout()); got != "" {
			w.Errorf("alive when the next holder ran: %q", got)
		}
	})
}

// TestLeftoversKilled and released: what else can be done with them.
func TestLeftoversKilled(t *testing.T) {
	eachLeaving(t, func(w *world, store, command string) {
		w.leaves("kill", store, command)
		w.noneLeft()
	})
}

func TestLeftoversReleased(t *testing.T) {
	eachLeaving(t, func(w *world, store, command string) {
		w.leaves("release", store, command)
		w.create("out")
		w.appears("over")
	})
}

// leaves runs a command that leaves work, which is not waited for, and says nothing of it.
func (w *world) leaves(what, store, command string) {
	w.Helper()
	p := w.pawl("run", "-s", store, "--leftovers", what, "--grace", "500ms", "x", "--", "bash", "-c",
		command+" while ! test -e in; do sleep 0.01; done; exit 4")
	p.end(4)
	w.pawl("run", "-n", "-s", store, "x", "true").end(0)
	if w.exists("over") || strings.Contains(p.stderr(), "pawl") {
		w.Errorf("over: %v, stderr %q", w.exists("over"), p.stderr())
	}
}

// TestSignalsReachLeftovers: INT and TERM end what pawl waits for, the second one for certain.
func TestSignalsReachLeftovers(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "sh", "-c", `(trap 'touch termed' TERM; touch in; while :; do sleep 0.02; done) & exit 5`)
	w.appears("in")
	w.until("pawl says what it waits for", func() bool { return strings.Contains(p.stderr(), "stays locked until") })
	p.signal(syscall.SIGTERM)
	w.appears("termed")
	time.Sleep(1100 * time.Millisecond) // a second one within a second is an echo
	p.signal(syscall.SIGTERM)
	p.end(5)
}

// restless is work that forks and ends all the time, so that no look at the processes finds it for certain.
const restless = `echo >>steps; test -e out || sh -c "$RESTLESS" &`

// TestKilledGuard: without its guard the command is ended, with all that it has started, before the next
// holder starts.
func TestKilledGuard(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"tree":     tree,
		"restless": `export RESTLESS='` + restless + `'; ` + restless + ` touch in; exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			t.Cleanup(func() { w.create("out") })
			store := w.blessed("redis://" + startRedis(t))
			w.create("pids")
			w.create("steps")
			p := w.pawl("run", "-s", store, "--grace", "300ms", "x", "--", "sh", "-c", command)
			w.appears("in")
			next := w.pawl("run", "-q", "-s", store, "x", "sh", "-c", noneAlive+"; wc -c <steps; sleep 0.3; wc -c <steps")
			for _, pid := range w.guards() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			p.end(exit.System, "the guard process was killed")
			<-next.done
			if got := strings.Fields(next.stdout()); len(got) != 2 || got[0] != got[1] {
				t.Errorf("alive when the next holder ran: %q", got)
			}
			w.noneLeft()
		})
	}
}

// TestKilledGuardOfLeftovers: what the command has left running ends as well. The exit code is the command's.
func TestKilledGuardOfLeftovers(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "sh", "-c", `(setsid env -i /bin/sh -c 'while :; do sleep 0.02; done' &); exit 6`)
	w.until("pawl says what it waits for", func() bool { return strings.Contains(p.stderr(), "stays locked until") })
	for _, pid := range w.guards() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.end(6)
	w.noneLeft()
}

// TestStoppedGuard: one that is stopped alone is continued.
func TestStoppedGuard(t *testing.T) {
	w := newWorld(t)
	p := w.holds("x")
	for _, pid := range w.guards() {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	w.free(p)
}

// noneOf is a command that prints those of the processes that live.
func noneOf(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, strconv.Itoa(pid))
	}
	return strings.Replace(noneAlive, "$(cat pids)", strings.Join(words, " "), 1)
}
