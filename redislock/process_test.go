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
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// inScripts are the commands that scripts run. The server counts them with those
// that clients send, but no client sends these here.
const inScripts = "time get exists set del pttl pexpire mget zadd zrange zrangebyscore zrank zrem zscore zcard publish pubsub|numsub setrange object|encoding"

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

// TestProcesses: processes with several goroutines each want the same name all the
// time. Two are never in at once, they get it from the server equally often, and each
// time costs three commands at most. The test is not parallel, as it would disturb
// others.
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
		t.Fatalf("%v turns in 10 s", counts)
	}
	jain, asked := sum*sum/(processes*squares), float64(clientCommands(r)-before)/sum
	t.Logf("%v turns, Jain index %.3f, %.2f commands for each", sum, jain, asked)
	if jain < 0.95 {
		t.Errorf("Jain index %.3f of %v; want 0.95 at least", jain, counts)
	}
	if asked > 3 {
		t.Errorf("%.2f commands for each turn; want 3 at most", asked)
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
	holder.say("acquire %v", time.Minute) // on a busy machine all comes late, renewals too
	holder.hear("got %d", &first)
	for i, c := range children {
		c.say("wait %d", each)
		if !eventually(3*patience, func() bool { return queueLen(r, "deploy") == (i+1)*each }) {
			t.Fatalf("%d wait; want %d", queueLen(r, "deploy"), (i+1)*each)
		}
	}
	before, began := clientCommands(r), time.Now()
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
	// A waiter looks every two seconds; on average half of them still wait.
	looks := 1.2 * time.Since(began).Seconds() / 4
	t.Logf("%.2f commands for each hand-off, of which up to %.2f are looks", asked, looks)
	if asked > 6+looks { // a waiter whose claim is over before it runs asks again; a stampede takes hundreds
		t.Errorf("%.2f commands for each hand-off; want 2, and %.2f for looks", asked, looks)
	}
	if n := queueLen(r, "deploy"); n != 0 {
		t.Errorf("%d are left in the queue", n)
	}
}
