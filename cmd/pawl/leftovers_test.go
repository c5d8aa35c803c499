// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
		w.create("out")
		next.end(0)
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
		first := w.pawl("run", "-s", store, "--ttl", "2s", "--grace", "300ms", "x", "--", "bash", "-c", "echo $$ >pid; "+command+" wait; sleep 1000")
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
		p := w.pawl("run", "-s", store, "--leftovers", "kill", "--grace", "500ms", "x", "--", "bash", "-c",
			command+" while ! test -e in; do sleep 0.01; done; exit 4")
		p.end(4)
		if w.exists("over") || strings.Contains(p.stderr(), "pawl") {
			w.Errorf("over: %v, stderr %q", w.exists("over"), p.stderr())
		}
		w.pawl("run", "-n", "-s", store, "x", "true").end(0)
		w.noneLeft()
	})
}

func TestLeftoversReleased(t *testing.T) {
	eachLeaving(t, func(w *world, store, command string) {
		p := w.pawl("run", "-s", store, "--leftovers", "release", "x", "--", "bash", "-c",
			command+" while ! test -e in; do sleep 0.01; done; exit 4")
		p.end(4)
		w.pawl("run", "-n", "-s", store, "x", "true").end(0)
		if w.exists("over") || strings.Contains(p.stderr(), "pawl") {
			w.Errorf("over: %v, stderr %q", w.exists("over"), p.stderr())
		}
		w.create("out")
		w.appears("over")
	})
}

// TestSignalsReachLeftovers: INT and TERM end what pawl waits for, the second one for certain.
func TestSignalsReachLeftovers(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "sh", "-c", `(trap 'touch termed' TERM; touch in; while :; do sleep 0.02; done) & exit 5`)
	w.appears("in")
	w.until("pawl says what it waits for", func() bool { return strings.Contains(p.stderr(), "stays locked until") })
	p.signal(syscall.SIGTERM)
	w.appears("termed")
	time.Sleep(300 * time.Millisecond) // a second one within 200 ms is an echo
	p.signal(syscall.SIGTERM)
	p.end(5)
}

// TestKilledGuard: another takes the place of a guard that is killed, and does its work, also for what has
// left group, session and environment.
func TestKilledGuard(t *testing.T) {
	t.Parallel()
	for _, kills := range []int{1, 2} {
		t.Run(strconv.Itoa(kills), func(t *testing.T) {
			w := newWorld(t)
			store := w.blessed("redis://" + startRedis(t))
			w.create("pids")
			first := w.pawl("run", "-s", store, "--ttl", "3s", "--grace", "300ms", "x", "--", "sh", "-c", tree)
			w.appears("in")
			for range kills {
				w.killGuard()
			}
			w.until("the guard knows what belongs to the command", func() bool { return w.knows(w.guards()[0]) })
			next := w.pawl("run", "-q", "-s", store, "--ttl", "10s", "x", "sh", "-c", noneAlive)
			first.signal(syscall.SIGKILL)
			next.end(0)
			if got := strings.TrimSpace(next.stdout()); got != "" {
				t.Errorf("alive when the next holder ran: %q", got)
			}
			w.noneLeft()
		})
	}
}

// TestKilledGuardChangesNothing: the command's exit code, its stops and what it leaves behind are known
// without the guard that has started it.
func TestKilledGuardChangesNothing(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "sh", "-c", `(setsid env -i /bin/sh -c 'while ! test -e '$W'/out2; do sleep 0.02; done' &); `+holdUntil+`; exit 6`)
	w.appears("in")
	w.killGuard()
	if !w.busy("x") || p.ended() {
		t.Error("free while the command runs")
	}
	w.create("out")
	w.until("pawl says what it waits for", func() bool { return strings.Contains(p.stderr(), "stays locked until") })
	if !w.busy("x") || p.ended() {
		t.Error("free while the command's work goes on")
	}
	w.create("out2")
	p.end(6)

	p = w.pawl("run", "x", "--", "sh", "-c", `touch in3; exec sleep 1000`)
	w.appears("in3")
	w.killGuard()
	p.signal(syscall.SIGTERM)
	p.end(143)
}

// TestRestlessLeftovers: work that forks and ends all the time, so that no look at the processes finds it for
// certain, keeps the lock after its guard was killed, and none of its dead stay.
func TestRestlessLeftovers(t *testing.T) {
	t.Parallel()
	const restless = `if test -e out; then touch over; else echo >>steps; sh -c "$RESTLESS" & fi`
	for when, command := range map[string]string{
		"after the command":  restless + `; echo $$ >pid; touch in; exit 3`,
		"before the command": restless + `; touch in; while ! test -e end; do sleep 0.02; done; exit 3`,
	} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t)
			t.Cleanup(func() { w.create("out") })
			p := w.pawl("run", "x", "--", "sh", "-c", "export RESTLESS='"+restless+"'; "+command)
			w.appears("in")
			if when == "after the command" {
				command := "/proc/" + strings.TrimSpace(w.read("pid"))
				w.until("the command has ended", func() bool { _, err := os.Stat(command); return err != nil })
			}
			guard := w.guards()
			if len(guard) != 1 {
				w.Fatalf("guards %d", guard)
			}
			_ = syscall.Kill(guard[0], syscall.SIGKILL)
			w.create("end")
			killed, at := len(w.read("steps")), time.Now()
			w.until("the work goes on while pawl looks", func() bool {
				return p.ended() || len(w.read("steps")) > killed+50 && time.Since(at) > 2*time.Second
			})
			if p.ended() || !w.busy("x") {
				w.Error("free while the command's work goes on")
			}
			if dead := w.children(p, "Z"); len(dead) > 200 {
				w.Errorf("%d zombies", len(dead))
			}
			w.create("out")
			p.end(3)
			if !w.exists("over") {
				w.Error("pawl ended before the work")
			}
		})
	}
}

// TestStoppedGuard: one that is stopped alone is continued.
func TestStoppedGuard(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "--", "sh", "-c", holdUntil)
	w.appears("in")
	for _, pid := range w.guards() {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	w.create("out")
	p.end(0)
}

// killGuard kills the guard and waits for the next.
func (w *world) killGuard() {
	w.Helper()
	var before []int
	w.until("there is a guard", func() bool { before = w.guards(); return len(before) == 1 })
	_ = syscall.Kill(before[0], syscall.SIGKILL)
	w.until("there is another guard", func() bool {
		now := w.guards()
		return len(now) == 1 && now[0] != before[0]
	})
}

// knows reports whether a guard that has replaced another has looked for what belongs to the command: it
// waits for the wrapper only after that, in a system call that Go's runtime does not use.
func (w *world) knows(guard int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", guard))
	return slices.ContainsFunc(threads, func(file string) bool {
		b, _ := os.ReadFile(file)
		return strings.HasPrefix(string(b), strconv.Itoa(unix.SYS_PPOLL)+" ")
	})
}

// noneOf is a command that prints those of the processes that live.
func noneOf(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, strconv.Itoa(pid))
	}
	return strings.Replace(noneAlive, "$(cat pids)", strings.Join(words, " "), 1)
}
