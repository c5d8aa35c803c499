// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// inScripts are the commands that scripts run. The server counts them with those
// that clients send, but no client sends these here.
const inScripts = "time get exists set del pttl pexpire mget zadd zrange zrank zrem publish"

var commandStat = regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`)

// clientCommands returns how many commands clients have sent.
func clientCommands(r *redis) int {
	sum := 0
	for _, m := range commandStat.FindAllStringSubmatch(r.do("info", "commandstats"), -1) {
		if !slices.Contains(strings.Fields(inScripts), m[1]) && m[1] != "info" {
			n, _ := strconv.Atoi(m[2])
			sum += n
		}
	}
	return sum
}

// startChildren starts so many processes and waits until all are connected.
func startChildren(t *testing.T, n int, url string) []*child {
	t.Helper()
	var all []*child
	for range n {
		all = append(all, startChild(t, url))
	}
	for _, c := range all {
		c.hear("ready")
	}
	return all
}

// TestProcesses: processes with several goroutines each want the same name all
// the time. Two are never in at once, they get it equally often, and each time
// costs three commands at most. It is not parallel to others, which it would
// disturb.
func TestProcesses(t *testing.T) {
	const processes, each = 8, 8
	r := blessedServer(t)
	file := filepath.Join(t.TempDir(), "shared")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	children := startChildren(t, processes, r.url())
	before := clientCommands(r)
	for _, c := range children {
		c.say("turns %d %s", each, file)
	}
	time.Sleep(10 * time.Second)
	for _, c := range children {
		c.say("stop")
	}
	var counts []int
	var sum, squares float64
	for _, c := range children {
		var n int
		var wrong string
		c.hear("turns %d %s", &n, &wrong)
		if wrong != "nothing" {
			t.Error(strings.ReplaceAll(wrong, "_", " "))
		}
		counts = append(counts, n)
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if sum < 100 {
		t.Fatalf("%v leases in 10 s", counts)
	}
	jain, asked := sum*sum/(processes*squares), float64(clientCommands(r)-before)/sum
	t.Logf("%v leases, Jain index %.3f, %.2f commands for each", sum, jain, asked)
	if jain < 0.95 {
		t.Errorf("Jain index %.3f of %v; want 0.95 at least", jain, counts)
	}
	if asked > 3 {
		t.Errorf("%.2f commands for each lease; want 3 at most", asked)
	}
}

// TestSharedFileTells shows that TestProcesses can fail.
func TestSharedFileTells(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "shared"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		token pawl.Token
		ok    bool
	}{{5, true}, {6, true}, {6, false}, {1 << 52, true}, {7, false}} {
		if wrong := visit(f, c.token); (wrong == "") != c.ok {
			t.Errorf("visit(%d) = %q", c.token, wrong)
		}
	}
	fmt.Fprintf(f, "%-20d in  ", 8)
	if visit(f, 9) == "" {
		t.Error("two at once are not seen")
	}
}

// TestManyProcesses: a thousand waiters of twenty processes in the server's queue
// are served in the order in which the processes came, without a stampede. Not
// parallel either.
func TestManyProcesses(t *testing.T) {
	const processes, each = 20, 50
	r := blessedServer(t)
	children := startChildren(t, processes, r.url())
	holder := startChildren(t, 1, r.url())[0]
	var first uint64
	holder.say("acquire %v", childTTL)
	holder.hear("got %d", &first)
	for i, c := range children {
		c.say("wait %d", each)
		if !eventually(3*patience, func() bool { return queueLen(r, "deploy") == (i+1)*each }) {
			t.Fatalf("%d wait; want %d", queueLen(r, "deploy"), (i+1)*each)
		}
	}
	before := clientCommands(r)
	holder.say("release")
	last := first
	for i, c := range children {
		least, most := ^uint64(0), uint64(0)
		for range each {
			var token uint64
			c.hear("got %d", &token)
			least, most = min(least, token), max(most, token)
		}
		if least <= last {
			t.Errorf("waiters of process %d were served before others who had come before them", i)
		}
		last = most
	}
	asked := float64(clientCommands(r)-before) / (processes * each)
	t.Logf("%.2f commands for each hand-off", asked)
	if asked > 2.5 {
		t.Errorf("%.2f commands for each hand-off; want 2, and a few looks", asked)
	}
	if n := queueLen(r, "deploy"); n != 0 {
		t.Errorf("%d are left in the queue", n)
	}
}

// bestOf measures three times, as a busy machine can spoil one, and checks the
// least. None may be beyond patience.
func bestOf(t *testing.T, what string, limit time.Duration, measure func(*testing.T) time.Duration) {
	t.Helper()
	var got []time.Duration
	for range 3 {
		got = append(got, measure(t))
		if slices.Min(got) <= limit {
			break
		}
	}
	t.Logf("%s after %v", what, got)
	if slices.Min(got) > limit || slices.Max(got) > patience {
		t.Errorf("%s after %v; want at most %v", what, got, limit)
	}
}

// granted returns when the server granted a lease. Tokens are server time unless
// two come in one microsecond.
func granted(l *pawl.Lease) time.Duration { return time.Duration(l.Token()) * time.Microsecond }

// serverTime returns the server's time, as granted does.
func serverTime(t testing.TB, r *redis) time.Duration {
	t.Helper()
	var s, us time.Duration
	if _, err := fmt.Sscan(r.do("time"), &s, &us); err != nil {
		t.Fatal(err)
	}
	return s*time.Second + us*time.Microsecond
}

// TestKilledHolderProcess: the process of a holder is killed; the waiter has the
// lock within 100 ms of the end of the TTL.
func TestKilledHolderProcess(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	c := openClient(t, r)
	bestOf(t, "the TTL of a killed holder was over, and the waiter had the lock", 100*time.Millisecond, func(t *testing.T) time.Duration {
		holder := startChildren(t, 1, r.url())[0]
		holder.say("acquire %v", 2*firstLook)
		var token uint64
		holder.hear("got %d", &token)
		next := acquiring(t, r, c, 1)
		time.Sleep(firstLook) // it is renewed
		holder.kill()
		ms, err := strconv.ParseInt(r.do("pexpiretime", lockKey(defaultPrefix, "deploy")), 10, 64)
		if err != nil || ms < 0 {
			t.Fatalf("PEXPIRETIME = %d, %v; want the end of the holder's TTL", ms, err)
		}
		l := <-next
		defer l.Release(t.Context())
		late := granted(l) - time.Duration(ms)*time.Millisecond
		if late < 0 {
			t.Errorf("the waiter had the lock %v before the TTL was over", -late)
		}
		return late
	})
}

func openClient(t *testing.T, r *redis) *pawl.Client {
	t.Helper()
	c, err := Open(t.Context(), r.url(), longOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// acquiring starts an Acquire of the lock "deploy" and returns when so many wait.
func acquiring(t *testing.T, r *redis, c *pawl.Client, n int) <-chan *pawl.Lease {
	t.Helper()
	got := make(chan *pawl.Lease, 1)
	go func() {
		defer close(got)
		l, err := c.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Errorf("Acquire = %v", err)
			return
		}
		got <- l
	}()
	if !eventually(patience, func() bool { return queueLen(r, "deploy") == n }) {
		t.Fatalf("%d do not come to wait", n)
	}
	return got
}

// TestFirstInLine: the process of the first waiter is killed, or stopped: the next
// one loses the claim, which is 1 s, at most.
func TestFirstInLine(t *testing.T) {
	t.Parallel()
	for how, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			a, b := openClient(t, r), openClient(t, r)
			bestOf(t, "the lock was free, and the next one had it", 1400*time.Millisecond, func(t *testing.T) time.Duration {
				held, err := a.Acquire(t.Context(), "deploy")
				if err != nil {
					t.Fatal(err)
				}
				first := startChildren(t, 1, r.url())[0]
				first.say("acquire %v", childTTL)
				if !eventually(patience, func() bool { return queueLen(r, "deploy") == 1 }) {
					t.Fatal("the process does not come to wait")
				}
				next := acquiring(t, r, b, 2)
				first.signal(signal)
				free := serverTime(t, r)
				if err := held.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				l := <-next
				late := granted(l) - free
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				if signal == syscall.SIGSTOP { // it comes back to its place
					first.signal(syscall.SIGCONT)
					var token pawl.Token
					first.hear("got %d", &token)
					if token <= l.Token() {
						t.Errorf("token %d after %d", token, l.Token())
					}
				}
				first.kill()
				return late
			})
		})
	}
}
