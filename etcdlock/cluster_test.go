// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// leader returns the leader among ms, and the others.
func leader(t testing.TB, ms []*member) (*member, []*member) {
	t.Helper()
	var first *member
	var rest []*member
	found := eventually(patience, func() bool {
		first, rest = nil, nil
		for _, m := range ms {
			if m.leads() {
				first = m
			} else {
				rest = append(rest, m)
			}
		}
		return first != nil
	})
	if !found {
		t.Fatal("the cluster has no leader")
	}
	return first, rest
}

// leads reports whether m takes itself for the leader.
func (m *member) leads() bool {
	out, err := exec.Command("etcdctl", "--endpoints", m.addr, "--command-timeout", "1s", "endpoint", "status", "-w", "json").Output()
	var status []struct {
		Status struct {
			Header struct {
				Member uint64 `json:"member_id"`
			} `json:"header"`
			Leader uint64 `json:"leader"`
		}
	}
	return err == nil && json.Unmarshal(out, &status) == nil && len(status) == 1 &&
		status[0].Status.Leader == status[0].Status.Header.Member
}

func urlOf(ms ...*member) string {
	var addrs []string
	for _, m := range ms {
		addrs = append(addrs, m.addr)
	}
	return "etcd://" + strings.Join(addrs, ",")
}

// TestKilledLeader: the leader of three is killed while a lease is held and waited
// for, and comes back. The holder keeps it, and the waiter gets it when it is
// released.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	ms := startCluster(t, 3)
	const ttl = 10 * time.Second
	a, b := openClient(t, urlOf(ms...), ttl), openClient(t, urlOf(ms...), ttl)
	held, err := a.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *pawl.Lease, 1)
	go func() {
		l, err := b.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		next <- l
	}()
	for range 2 {
		l, _ := leader(t, ms)
		l.kill()
		time.Sleep(ttl / 4)
		l.launch()
		if !l.ready() {
			t.Fatalf("the member does not come back:\n%s", l.out)
		}
		time.Sleep(ttl / 2) // past the first renewal
		if err := held.Err(); err != nil {
			t.Fatalf("the lease is lost: %v", err)
		}
		select {
		case l := <-next:
			t.Fatalf("the waiter has got it: %v", l)
		default:
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	select {
	case l := <-next:
		if l.Token() <= held.Token() {
			t.Errorf("token %d after %d", l.Token(), held.Token())
		}
		l.Release(t.Context())
	case <-time.After(patience):
		t.Fatal("the waiter does not get it")
	}
}

// hang makes the log of m hang on its disk, without stopping the process: what m
// still does is what it does without writing. It returns what undoes it.
func (m *member) hang() (resume func()) {
	m.t.Helper()
	pid := strconv.Itoa(m.cmd.Process.Pid)
	args := []string{"-f", "-o", "/dev/null", "-p", pid,
		"-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600000000"}
	logs, err := filepath.Glob(filepath.Join(m.dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		m.t.Fatalf("no log: %v", err)
	}
	for _, log := range logs {
		args = append(args, "-P", log)
	}
	strace := exec.Command("strace", args...)
	out := new(output)
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
	stuck, others = leader(t, ms)
	resume = stuck.hang()
	// It hangs when it has something to write.
	_ = exec.Command("etcdctl", "--endpoints", stuck.addr, "--command-timeout", "200ms", "put", "x", "y").Run()
	leader(t, others)
	if !stuck.leads() {
		t.Fatal("the member that hangs has noticed that it leads no more: this shows nothing")
	}
	return stuck, others, resume
}

// TestStuckLeader: a leader whose disk hangs does not notice that the others have
// elected another one, and goes on answering keepalives. A holder that asks only
// that member must stop before the next one starts.
func TestStuckLeader(t *testing.T) {
	t.Parallel()
	ms := startCluster(t, 3)
	const ttl = 4 * time.Second
	first, _ := leader(t, ms)
	a := openClient(t, first.url(), ttl)
	held, err := a.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	_, others, resume := stuckLeader(t, ms)
	b := openClient(t, urlOf(others...), ttl)
	next, err := b.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Err(); err == nil {
		t.Error("two trusted holders: the first has not noticed that its lease has ended")
	}
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	resume()
	next.Release(t.Context())
	held.Release(t.Context())
}

// TestStuckLeaderAnswers is the control of TestStuckLeader: what a renewal would be
// that believes an answer to a keepalive. The member says that the lease lives,
// well after another holder has begun.
func TestStuckLeaderAnswers(t *testing.T) {
	t.Parallel()
	ms := startCluster(t, 3)
	first, _ := leader(t, ms)
	a := openStore(t, first.url())
	g := take(t, a, requestFor("deploy", 2*time.Second))
	stuck, others, _ := stuckLeader(t, ms)
	if stuck != first {
		t.Skip("the leader has changed before the test began")
	}
	b := openStore(t, urlOf(others...))
	w := wait(t, b, request("deploy"))
	for w.waits() {
		if err := g.backing.keepAlive(t.Context(), a); err != nil {
			t.Fatalf("the member that hangs does not answer: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	next := w.granted(patience)
	if err := g.backing.keepAlive(t.Context(), a); err != nil {
		t.Fatalf("keepalive = %v; want the wrong answer that the test is about", err)
	}
	if left := g.backing.asked.Add(2 * time.Second).Sub(driver.Now()); left <= 0 {
		t.Errorf("the keepalive would be trusted for %v", left)
	}
	if since, err := g.Renew(t.Context(), 2*time.Second); err == nil {
		t.Errorf("Renew = %v: it has believed the member", since)
	}
	release(t, next)
}

// TestStuckLeaderReadsElsewhere: the keepalives go to a leader that hangs, the
// reads that are to prove them to a member that is well. The key is there until its
// lease ends, so that alone proves nothing.
func TestStuckLeaderReadsElsewhere(t *testing.T) {
	t.Parallel()
	ms := startCluster(t, 3)
	const ttl = 4 * time.Second
	first, rest := leader(t, ms)
	a, b := openStore(t, urlOf(rest...)), openStore(t, urlOf(rest...))
	g := take(t, a, requestFor("deploy", ttl))
	a.leases = openStore(t, first.url()).leases
	if stuck, _, _ := stuckLeader(t, ms); stuck != first {
		t.Skip("the leader has changed before the test began")
	}
	w := wait(t, b, request("deploy"))
	since, answers := g.Since(), 0
	for w.waits() {
		ctx, cancel := context.WithTimeout(t.Context(), ttl/6)
		if at, err := g.Renew(ctx, ttl); err == nil {
			since = at
		} else if errors.Is(err, errUnproven) {
			answers++
		}
		cancel()
		time.Sleep(50 * time.Millisecond)
	}
	next := w.granted(patience)
	if over := since.Add(ttl).Sub(w.at); over > 0 {
		t.Errorf("the first holder is trusted for %v after the next has begun: a keepalive without effect was believed", over)
	}
	if answers == 0 && since == g.Since() {
		t.Error("nothing was answered: this shows nothing")
	}
	release(t, next)
}

// TestCutOffMember: the holder asks a member, leader or not, that cannot reach the
// majority. It must stop before the next holder starts.
func TestCutOffMember(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		t.Run(map[bool]string{true: "leader", false: "follower"}[leads], func(t *testing.T) {
			t.Parallel()
			ms := startCluster(t, 3)
			const ttl = 3 * time.Second
			mine, rest := leader(t, ms)
			if !leads {
				mine, rest = rest[0], []*member{mine, rest[1]}
			}
			a, b := openClient(t, mine.url(), ttl), openClient(t, urlOf(rest...), ttl)
			held, err := a.Acquire(t.Context(), "deploy")
			if err != nil {
				t.Fatal(err)
			}
			var ended atomic.Int64 // driver.Instant
			go func() {
				<-held.Done()
				ended.Store(int64(driver.Now()))
			}()
			next := make(chan driver.Instant, 1)
			go func() {
				l, err := b.Acquire(t.Context(), "deploy")
				if err != nil {
					t.Errorf("Acquire = %v", err)
				} else {
					defer l.Release(t.Context())
				}
				next <- driver.Now()
			}()
			if !eventually(patience, func() bool {
				info, err := b.Inspect(t.Context(), "deploy")
				return err == nil && len(info.Waiters) == 1
			}) {
				t.Fatal("the waiter does not come into the queue")
			}
			for _, m := range rest {
				m.stop()
			}
			time.Sleep(ttl + time.Second)
			mine.stop() // those who go on have to do without it
			for _, m := range rest {
				m.cont()
			}
			select {
			case at := <-next:
				if e := driver.Instant(ended.Load()); e == 0 || e > at {
					t.Errorf("the first lease ended at %d, the next began at %d", e, at)
				}
			case <-time.After(2 * patience):
				t.Error("the waiter does not get it")
			}
			mine.cont()
			if err := held.Err(); err == nil {
				t.Error("the lease is trusted still")
			}
		})
	}
}
