// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// TestCounter has many processes add one to a counter without any other
// protection: 2,000 times, and with FILELOCK_WAITERS 10,000 times.
func TestCounter(t *testing.T) {
	t.Parallel()
	const processes = 50
	rounds := 40
	if os.Getenv("FILELOCK_WAITERS") != "" {
		rounds = 200
	}
	dir := memoryDir(t) // the disk would set the pace
	counter := filepath.Join(t.TempDir(), "counter")
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			if err := command("count", dir, "counter", counter, strconv.Itoa(rounds)).Run(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, _ := os.ReadFile(counter); string(got) != strconv.Itoa(processes*rounds) {
		t.Errorf("the counter is %s; want %d", got, processes*rounds)
	}
	tokensGrow(t, counter+".tokens", processes*rounds)
}

func tokensGrow(t *testing.T, path string, want int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last, n := uint64(0), 0
	for _, field := range strings.Fields(string(text)) {
		token, err := strconv.ParseUint(field, 10, 64)
		if err != nil || token <= last {
			t.Fatalf("token %s after %d", field, last)
		}
		last, n = token, n+1
	}
	if n != want {
		t.Errorf("%d tokens; want %d", n, want)
	}
}

// TestKill kills holders at random moments: nobody keeps the lock, and no
// token comes twice. On a busy machine it takes more kills until there have been
// as many grants.
func TestKill(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	counter := filepath.Join(t.TempDir(), "counter")
	const lanes, kills = 4, 30
	grants := 0
	for round := 0; round < 10 && grants < lanes*kills; round++ {
		var all sync.WaitGroup
		for range lanes {
			all.Go(func() {
				for range kills {
					killOne(t, s, counter)
				}
			})
		}
		all.Wait()
		text, _ := os.ReadFile(counter + ".tokens")
		grants = strings.Count(string(text), "\n")
	}
	if grants < lanes*kills {
		t.Fatalf("only %d grants", grants)
	}
	tokensGrow(t, counter+".tokens", grants)
	eventually(t, "the lock is free", func() bool {
		g, err := s.TryAcquire(context.Background(), request("kill"))
		if err == nil {
			g.Release(context.Background())
		}
		return err == nil
	})
	if n := queueLen(s, "kill"); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
}

// killOne starts a process that takes the lock again and again, and kills it.
func killOne(t *testing.T, s client, counter string) {
	cmd := command("count", s.dir, "kill", counter, "1000000")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = stdout.Read(make([]byte, 1)) // it has begun
	}
	if err != nil {
		t.Error(err)
		return
	}
	pause(rand.N(40))
	cmd.Process.Kill()
	cmd.Wait()
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

// TestKilledWaiters kills the head, one in the middle and the holder.
func TestKilledWaiters(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	holder := start(t, "hold", s.dir, "deploy")
	holder.line("held")
	ps := line(t, s, "deploy", "hold", 5)
	ps[0].kill()
	ps[2].kill()
	holder.kill()
	ps[1].line("held")
	ps[1].say("release")
	ps[3].line("held")
	ps[3].kill()
	ps[4].line("held")
	if ws := s.waiters(encode("deploy")); len(ws) != 0 {
		t.Errorf("%v wait still", ws)
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

// TestCleanerStorm removes them again and again while many work.
func TestCleanerStorm(t *testing.T) {
	t.Parallel()
	const processes, rounds = 8, 50
	s := open(t, memoryDir(t))
	counter := filepath.Join(t.TempDir(), "counter")
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			if err := command("count", s.dir, "storm", counter, strconv.Itoa(rounds)).Run(); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	for i := 0; ; i++ {
		select {
		case <-done:
			tokensGrow(t, counter+".tokens", processes*rounds)
			if got, _ := os.ReadFile(counter); string(got) != strconv.Itoa(processes*rounds) {
				t.Errorf("the counter is %s; want %d", got, processes*rounds)
			}
			return
		default:
			os.RemoveAll(s.path("storm", []string{fifoSuffix, queueSuffix}[i%2]))
			pause(rand.N(10))
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
	ps[0].signal(syscall.SIGCONT)
	ps[1].say("release")
	ps[0].line("held")
}

// TestStoppedWaiterAndTry: the same for one that only tries.
func TestStoppedWaiterAndTry(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	g := acquire(t, s, "deploy")
	ps := line(t, s, "deploy", "hold", 1)
	ps[0].signal(syscall.SIGSTOP)
	eventually(t, "the waiter is stopped", func() bool { return processOf(ps[0].Process.Pid).stopped() })
	release(t, g)
	g = acquire(t, s, "deploy")
	ps[0].signal(syscall.SIGCONT)
	release(t, g)
	ps[0].line("held")
}
