// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// queueLen returns how many live waiters a name has.
func queueLen(s client, name string) int { return len(s.waiters(encode(name))) }

func pids(ws []driver.Waiter) (pids []int) {
	for _, w := range ws {
		pids = append(pids, w.PID)
	}
	return pids
}

// line starts n waiters one after the other, so that their order is known.
func line(t testing.TB, s client, name, mode string, n int, args ...string) []*proc {
	t.Helper()
	var ps []*proc
	for range n {
		before := queueLen(s, name)
		ps = append(ps, start(t, append([]string{mode, s.dir, name}, args...)...))
		eventually(t, "another waiter is in the queue", func() bool { return queueLen(s, name) > before })
	}
	return ps
}

// TestManyWaiters has many processes wait, and serves them in their order.
// FILELOCK_WAITERS=1000 is for machines with memory to spare.
func TestManyWaiters(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("FILELOCK_WAITERS"))
	if n == 0 {
		n = 200 / raceFactor
	}
	s := open(t, t.TempDir())
	g := acquire(t, s, "many")
	order := filepath.Join(t.TempDir(), "order")
	var all sync.WaitGroup
	defer all.Wait()
	for range n {
		cmd := command("turn", s.dir, "many", order)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { cmd.Wait() })
		defer cmd.Process.Kill() // or they wait for ever if the test fails
	}
	eventually(t, "all wait", func() bool { return queueLen(s, "many") == n })
	want := pids(s.waiters(encode("many")))
	released := time.Now()
	release(t, g)
	var got []string
	eventually(t, "all had their turn", func() bool {
		text, _ := os.ReadFile(order)
		got = strings.Fields(string(text))
		return len(got) == n
	})
	t.Logf("%d waiters were served in %v", n, time.Since(released))
	if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
		t.Errorf("served in the order\n%s; want\n%s", a, b)
	}
}

// TestCleaner removes all that may be removed while a process waits.
func TestCleaner(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{fifoSuffix, queueSuffix} {
		s := open(t, t.TempDir())
		holder := start(t, "hold", s.dir, "deploy")
		holder.line("held")
		ps := line(t, s, "deploy", "hold", 2)
		// A waiter may put a file into a directory that is being removed.
		eventually(t, "it is removed", func() bool { return os.RemoveAll(s.path("deploy", suffix)) == nil })
		late := start(t, "hold", s.dir, "deploy") // makes what is missing
		eventually(t, "the late one waits", func() bool { return queueLen(s, "deploy") > 0 })
		holder.kill()
		// The order is lost, and nothing else.
		all := append(ps, late)
		for _, p := range all {
			p.in.Close()
		}
		for _, p := range all {
			p.line("held")
		}
	}
}

// TestStoppedWaiter: Ctrl-Z of a waiter does not keep others from the lock.
func TestStoppedWaiter(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	holder := start(t, "hold", s.dir, "deploy")
	holder.line("held")
	ps := line(t, s, "deploy", "hold", 2)
	ps[0].signal(syscall.SIGSTOP)
	eventually(t, "the first waiter is stopped", func() bool { return processOf(ps[0].Process.Pid).stopped() })
	holder.say("release")
	ps[1].line("held") // after it has looked again
	ps[1].say("release")
	ps[1].line("released")
	g := acquire(t, s, "deploy") // nor those that only try
	ps[0].signal(syscall.SIGCONT)
	release(t, g)
	ps[0].line("held")
}
