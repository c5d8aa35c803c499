// SPDX-License-Identifier: Apache-2.0

//go:build linux

package job

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	const sec = int64(time.Second)
	for _, c := range []struct {
		name               string
		deadline, orphaned int64
		term, kill         int64
	}{
		{"nothing to do", 0, 0, 0, 0},
		{"the wrapper comes first", 100 * sec, 0, 90*sec + sec/2, 100*sec - sec/2},
		{"orphan without deadline", 0, 50 * sec, 50 * sec, 60 * sec},
		{"orphan long before the deadline", 100 * sec, 50 * sec, 50 * sec, 60 * sec},
		{"orphan shortly before the deadline", 100 * sec, 95 * sec, 95 * sec, 100*sec - sec/2},
		{"orphan after the deadline", 100 * sec, 101 * sec, 101 * sec, 100*sec - sec/2},
	} {
		w := &watch{grace: 10 * time.Second, deadline: c.deadline, orphaned: c.orphaned}
		if term, kill := w.plan(); term != c.term || kill != c.kill {
			t.Errorf("%s: TERM at %d, KILL at %d, want %d, %d", c.name, term, kill, c.term, c.kill)
		}
	}
}

func TestMargin(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 5 * time.Millisecond,
		time.Second:           100 * time.Millisecond,
		time.Minute:           500 * time.Millisecond,
	} {
		if got := Margin(grace); got != want {
			t.Errorf("%v: %v, want %v", grace, got, want)
		}
	}
}

// victim starts a process group that says when it is ready.
func victim(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sh", "-c", script+"; echo; while :; do sleep 0.02; done")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { _ = c.Wait(); close(reaped) }() // or the group would keep a zombie
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); <-reaped })
	return c
}

// guarded runs a guard with what it is told, and returns when it has ended.
func guarded(t *testing.T, w *watch, c *exec.Cmd, told ...string) {
	t.Helper()
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// All is there before the guard looks, as after it was stopped.
	for _, line := range told {
		_, _ = io.WriteString(wr, line+"\n")
	}
	wr.Close()
	done := make(chan struct{})
	w.group, w.pipe = c.Process.Pid, number(r)
	go func() { w.run(); close(done) }()
	go func() { // in place of reap
		for !ended(c) {
			time.Sleep(pollInterval)
		}
		w.nothing.Store(true)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the guard does not end")
	}
}

// ended reports whether nothing is left of a victim.
func ended(c *exec.Cmd) bool { return !groupExists(c.Process.Pid) }

func TestGuardEndsOrphans(t *testing.T) {
	c := victim(t, "trap '' TERM")
	began := time.Now()
	guarded(t, &watch{grace: 300 * time.Millisecond}, c)
	if !ended(c) || time.Since(began) < 250*time.Millisecond {
		t.Errorf("alive, or ended after %v", time.Since(began))
	}
	c = victim(t, ":")
	guarded(t, &watch{grace: time.Hour}, c)
	if !ended(c) {
		t.Error("TERM was not sent")
	}
}

func TestGuardLeavesTheRestAlone(t *testing.T) {
	c := victim(t, ":")
	guarded(t, &watch{grace: time.Second}, c, "done")
	guarded(t, &watch{grace: time.Second}, c, "nonsense", "deadline", "deadline x", "done")
	// A guard that was stopped hears of old deadlines first.
	guarded(t, &watch{grace: time.Second}, c, "deadline 1", "deadline 0", "done")
	if ended(c) {
		t.Error("the group was ended")
	}
}

// A process may call itself anything.
func TestReadProcess(t *testing.T) {
	dir := t.TempDir()
	name := dir + "/a ) R 1 (b"
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		err = os.Symlink(sleep, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name, "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	p, ok := readProcess(c.Process.Pid)
	if !ok || p.parent != os.Getpid() || p.group != syscall.Getpgrp() {
		t.Errorf("%+v, %v", p, ok)
	}
	pids := func(list []process) (found []int) {
		for _, p := range list {
			found = append(found, p.pid)
		}
		return found
	}
	if got := pids((&targets{root: os.Getpid(), group: -1}).strays()); !slices.Contains(got, c.Process.Pid) {
		t.Errorf("strays %d, want %d among them", got, c.Process.Pid)
	}
	p.began += "1"
	p.signal(syscall.SIGKILL) // another process than p by now
	if p, ok := readProcess(c.Process.Pid); !ok || p.dead {
		t.Error("a process that only has the same number was killed")
	}
}

// TestReapedChildIsNotTheLast: a dead child may have left a process that became our child after the list
// was read. So only a look that reaps nobody shows that none is left.
func TestReapedChildIsNotTheLast(t *testing.T) {
	j := &Job{guard: &guard{}, others: children(os.Getpid())}
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Release() // reap waits for it
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		p, ok := readProcess(c.Process.Pid)
		if !ok || time.Now().After(deadline) {
			t.Fatalf("no zombie: %+v", p)
		}
		if p.dead {
			break
		}
	}
	if j.reap() {
		t.Error("none is left, says the look that has reaped one")
	}
	if !j.reap() {
		t.Error("somebody is left, says the next look")
	}
}

// TestNumberOfAnotherGroup: once the command has been reaped and its group is empty, another group may get
// its number. What the command has left elsewhere is ended, and that group is not.
func TestNumberOfAnotherGroup(t *testing.T) {
	other, left := victim(t, ":"), victim(t, ":")
	p, ok := readProcess(other.Process.Pid)
	if !ok {
		t.Fatal("no such process")
	}
	j := &Job{guard: &guard{}, adopted: true, pid: other.Process.Pid, others: []process{p},
		ended: make(chan struct{}), started: make(chan struct{})}
	j.hear("exited 0")
	if !kill(j.SignalAll, func() bool { return ended(left) }) {
		t.Error("what the command has left is alive")
	}
	j.Signal(syscall.SIGKILL)
	if p, ok := readProcess(other.Process.Pid); !ok || p.dead {
		t.Error("a group that has got the number of the command's was killed")
	}
}

// TestGuardDiesBeforeItTells: a guard that was killed between the end of the command and its message has
// reaped the command.
func TestGuardDiesBeforeItTells(t *testing.T) {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if notChild(c.Process.Pid) {
		t.Error("a child that nobody has reaped is none")
	}
	_ = c.Wait()
	if !notChild(c.Process.Pid) {
		t.Error("what was reaped is a child")
	}
}
