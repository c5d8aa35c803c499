// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// hang makes the log of m hang on its disk, without stopping the process: what m
// still does is what it does without writing. It returns what undoes it.
func (m *member) hang() (resume func()) {
	m.t.Helper()
	pid := strconv.Itoa(m.Pid())
	args := []string{"-f", "-o", "/dev/null", "-p", pid,
		"-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600000000"}
	logs, err := filepath.Glob(filepath.Join(m.Dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		m.t.Fatalf("no log: %v", err)
	}
	for _, log := range logs {
		args = append(args, "-P", log)
	}
	strace := exec.Command("strace", args...)
	out := new(servers.Output)
	strace.Stderr = out
	strace.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := strace.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := false
	resume = func() {
		if !ended {
			ended = true
			strace.Process.Signal(syscall.SIGTERM)
			strace.Wait()
		}
	}
	m.t.Cleanup(resume)
	attached := func() bool {
		tasks, err := filepath.Glob("/proc/" + pid + "/task/*/status")
		for _, task := range tasks {
			status, _ := os.ReadFile(task)
			if strings.Contains(string(status), "TracerPid:\t0\n") {
				return false
			}
		}
		return err == nil && len(tasks) > 0
	}
	if !eventually(patience, attached) {
		m.t.Fatalf("strace does not attach: %s", out)
	}
	return resume
}

// stuckLeader makes the leader of three hang while it holds on to its leadership,
// as it takes itself for, and waits until the others have another.
func stuckLeader(t *testing.T, ms []*member) (stuck *member, others []*member, resume func()) {
	t.Helper()
	for end := time.Now().Add(2 * patience); time.Now().Before(end); resume() {
		stuck, others = leader(t, ms)
		resume = stuck.hang()
		// It hangs when it has something to write. On a slow machine etcdctl takes long to ask.
		put := exec.Command("etcdctl", "--endpoints", stuck.Addr, "--command-timeout", "30s", "put", "x", "y")
		must(t, put.Start())
		leader(t, others)
		hangs := stuck.leads() // or there was an election before it hung
		put.Process.Kill()
		put.Wait()
		if hangs {
			return stuck, others, resume
		}
	}
	t.Fatal("no leader has hung without notice that it leads no more: this shows nothing")
	return nil, nil, nil
}

// TestStuckLeader: a leader whose disk hangs does not notice that the others have
// elected another one, and goes on answering keepalives. A holder that asks only
// that member must stop before the next one starts.
func TestStuckLeader(t *testing.T) {
	t.Parallel()
	inTime(t, func(ttl time.Duration) (shown bool) {
		ms := startCluster(t, 3)
		first, _ := leader(t, ms)
		a := openClient(t, first.url(), ttl)
		held, err := a.Acquire(t.Context(), "deploy")
		must(t, err)
		stuck, others, resume := stuckLeader(t, ms)
		if stuck != first || held.Err() != nil {
			return false
		}
		b := openClient(t, urlOf(others...), ttl)
		next, err := b.Acquire(t.Context(), "deploy")
		must(t, err)
		if err := held.Err(); err == nil {
			t.Error("two trusted holders: the first has not noticed that its lease has ended")
		}
		if next.Token() <= held.Token() {
			t.Errorf("token %d after %d", next.Token(), held.Token())
		}
		resume()
		next.Release(t.Context())
		held.Release(t.Context())
		return true
	})
}

// inTime calls try with longer and longer leases, each time with a cluster of its own, until the
// test has shown something: a machine that is slow may be too late for a lease.
func inTime(t *testing.T, try func(ttl time.Duration) (shown bool)) {
	t.Helper()
	for ttl := 5 * time.Second; !try(ttl); ttl *= 2 {
		if ttl > patience {
			t.Fatalf("a lease of %v has shown nothing: this machine is too slow", ttl)
		}
		t.Logf("a lease of %v has shown nothing", ttl)
	}
}

// keepAlive is one keepalive of the lease behind g, at the server that s is connected to.
func keepAlive(t *testing.T, s *half, g *grant) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return g.backing.keepAlive(ctx, s.store)
}

// TestStuckLeaderReadsElsewhere: the keepalives go to a leader that hangs, the
// reads that are to prove them to a member that is well. The key is there until its
// lease ends, so that alone proves nothing.
func TestStuckLeaderReadsElsewhere(t *testing.T) {
	t.Parallel()
	inTime(t, func(ttl time.Duration) (shown bool) {
		ms := startCluster(t, 3)
		first, rest := leader(t, ms)
		a, b := openStore(t, urlOf(rest...)), openStore(t, urlOf(rest...))
		g := take(t, a, requestFor("deploy", ttl))
		a.backings = openStore(t, first.url()).backings
		if stuck, _, _ := stuckLeader(t, ms); stuck != first {
			return false
		}
		w := wait(t, b, request("deploy"))
		since, answers := g.Since(), 0
		for w.Waits() {
			ctx, cancel := context.WithTimeout(t.Context(), ttl/6)
			at, err := g.Renew(ctx, ttl)
			cancel()
			if err == nil {
				since = at
			} else if errors.Is(err, errUnproven) {
				answers++
			}
			time.Sleep(50 * time.Millisecond)
		}
		next := w.granted(patience)
		if over := since.Add(ttl).Sub(w.At); over > 0 {
			t.Errorf("the first holder is trusted for %v after the next has begun: a keepalive without effect was believed", over)
		}
		release(t, next)
		return answers > 0 || since != g.Since() // or nothing was answered
	})
}

// TestStuckLeaderCostsNoLease: the leader hangs, and goes on answering keepalives
// that prove nothing. A client that knows the others, too, renews its leases there.
func TestStuckLeaderCostsNoLease(t *testing.T) {
	t.Parallel()
	inTime(t, func(time.Duration) bool { return stuckLeaderCostsNoLease(t) })
}

func stuckLeaderCostsNoLease(t *testing.T) (shown bool) {
	ms := startCluster(t, 3)
	s := openStore(t, urlOf(ms...))
	first, _ := leader(t, ms)
	g := take(t, s, requestFor("deploy", time.Minute))
	wire := s.backings
	s.backings = openStore(t, first.url()).backings // that is where the stream leads to
	if _, err := g.Renew(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if stuck, _, _ := stuckLeader(t, ms); stuck != first {
		return false
	}
	s.backings = wire
	old := s.term.Load()
	drivertest.Until(t, "no read has told of the new leader", func() bool { // a read at one of the others tells of the new term
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.prove(ctx)
		return err == nil && s.term.Load() > old
	})
	renewed := func() bool {
		b := *g.backing
		return b.keepAlive(t.Context(), s.store) == nil && b.term == s.term.Load() // one that runs beside another has a stream of its own
	}
	if !eventually(patience, renewed) {
		t.Error("the lease cannot be renewed, although two members of three are well")
	}
	// A read goes to each of the members in turn, and the stuck one does not answer.
	drivertest.Until(t, "Renew fails again and again", func() bool { _, err := g.Renew(t.Context(), time.Minute); return err == nil })
	return true
}
