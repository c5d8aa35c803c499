// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

const counterEnv = "PAWL_BENCH_COUNTER"

// counter is a process of TestCountTogether. It counts in turn with the others, and says how often it has.
type counter struct {
	Kind, Key, Dir string
	Limit          int
	World          *world
}

func (c *counter) run() error {
	ctx := context.Background()
	l, err := together[c.Kind](ctx, c.World, seat{})
	if err != nil {
		return err
	}
	for mine := 0; ; mine++ {
		unlock, _, err := l.lock(ctx, c.Key)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		done, err := count(c.Dir, c.Limit)
		if err == nil {
			err = unlock()
		}
		switch {
		case err != nil:
			return fmt.Errorf("after %d turns: %w", mine, err)
		case done:
			fmt.Println(mine)
			return nil
		}
		time.Sleep(rand.N(8 * time.Millisecond))
	}
}

// count adds one to the number in a file, as nobody may do who is not alone. Two at a time
// find each other's mark.
func count(dir string, limit int) (done bool, err error) {
	mark, file := filepath.Join(dir, "inside"), filepath.Join(dir, "count")
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, fmt.Errorf("somebody else is inside, too: %w", err)
	}
	f.Close()
	defer os.Remove(mark)
	b, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(string(b))
	if err != nil || n == limit {
		return n == limit, err
	}
	return false, os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// TestCountTogether: processes with another lock library and processes with pawl exclude each other on one key, as in
// a rolling migration; see docs/migrating.md. Eight of each count to 2,000; make soak has them count to 10,000, as MIGRATE_COUNT says.
func TestCountTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("processes count for minutes")
	}
	for _, c := range []struct {
		theirs, ours string
		key, pattern string
		nodes, limit int
	}{
		{"redsync", "pawl", "jobs:count", "jobs:*", 1, 2_000},
		{"bsm/redislock", "pawl", "jobs:count", "jobs:*", 1, 2_000},
		{"SET NX PX", "pawl", "count", "*", 1, 2_000},
		{"SET NX PX", "pawl with Efficiency", "{jobs}:count", "{jobs}:*", 1, 1_000},
		{"rueidislock", "pawl", "rueidislock:0:count", "rueidislock:0:*", 1, 2_000},
		{"redis-py", "pawl", "jobs:count", "jobs:*", 1, 3_000},
		{"redsync", "pawl on three", "jobs:count", "jobs:*", 3, 1_000},
	} {
		t.Run(c.theirs+" and "+c.ours, func(t *testing.T) {
			w := new(world)
			for range c.nodes {
				w.Redis = append(w.Redis, servers.StartRedis(t).Addr)
			}
			bless(t, w.Redis, c.pattern)
			if n, err := strconv.Atoi(os.Getenv("MIGRATE_COUNT")); err == nil {
				c.limit = n
			}
			countTogether(t, c.limit, []string{c.theirs, c.ours}, c.key, w)
		})
	}
}

// TestCountTogetherElsewhere: the same on other stores.
func TestCountTogetherElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("processes count for minutes")
	}
	for _, c := range []struct {
		theirs, ours string
		start        func() *world
	}{
		{"concurrency", "pawl on etcd", func() *world { return &world{Etcd: servers.StartEtcd(t, 1)[0].Addr} }},
		{"go-zookeeper", "pawl on ZooKeeper", func() *world { return &world{ZK: servers.StartZooKeeper(t).Addr} }},
	} {
		t.Run(c.theirs+" and "+c.ours, func(t *testing.T) {
			countTogether(t, 1_000, []string{c.theirs, c.ours}, "jobs/count", c.start())
		})
	}
}

func bless(t *testing.T, addrs []string, pattern string) {
	t.Helper()
	var err error
	if len(addrs) == 1 {
		err = redislock.Bless(t.Context(), "redis://"+addrs[0], &redislock.Options{Pattern: pattern})
	} else {
		err = redlock.Bless(t.Context(), "redlock://"+strings.Join(addrs, ","), &redlock.Options{Options: redislock.Options{Pattern: pattern}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

const each = 8 // processes of each kind

func countTogether(t *testing.T, limit int, kinds []string, key string, w *world) {
	dir := servers.InMemory(t) // the disk would set the pace
	if err := os.WriteFile(filepath.Join(dir, "count"), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		kind string
		n    int
		err  error
	}
	began, outcomes := time.Now(), make(chan outcome)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for i := range 2 * each {
		kind := kinds[i%2]
		c, err := json.Marshal(&counter{kind, key, dir, limit, w})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		// Of one processor each: it is the processes that run beside each other.
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0", counterEnv+"="+string(c))
		if program := programs[kind]; program != nil {
			args := append(program(t), key, dir, strconv.Itoa(limit), strings.Join(w.Redis, ",")+w.ZK)
			cmd = exec.CommandContext(ctx, args[0], args[1:]...)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		go func() {
			out, err := cmd.Output()
			n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			outcomes <- outcome{kind, n, err}
		}()
	}
	turns, sum := make(map[string]int), 0
	for range 2 * each {
		o := <-outcomes
		if o.err != nil {
			t.Errorf("%s: %v", o.kind, o.err)
			cancel()
		}
		turns[o.kind] += o.n
		sum += o.n
	}
	b, err := os.ReadFile(filepath.Join(dir, "count"))
	if string(b) != strconv.Itoa(limit) || sum != limit || err != nil {
		t.Errorf("the file says %s, and the processes have counted %d times; want %d (%v)", b, sum, limit, err)
	}
	for _, kind := range kinds {
		if turns[kind] < limit/1000 {
			t.Errorf("%s had %d turns of %d: the two did not meet", kind, turns[kind], limit)
		}
	}
	t.Logf("%v in %v", turns, time.Since(began).Round(time.Millisecond))
}

// programs are the processes in other languages, by their kind.
var programs = map[string]func(*testing.T) []string{"redis-py": python}

func python(t *testing.T) []string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} { // that of the system may not be the first in PATH
		if exec.Command(p, "-c", "import redis").Run() == nil {
			return []string{p, "-c", pythonWorker}
		}
	}
	t.Fatal("redis-py is missing: apt-get install python3-redis")
	return nil
}

const pythonWorker = `
import os, random, redis, sys, time
key, dir, limit, addr = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
r = redis.Redis(port=int(addr.rsplit(":", 1)[1]))
mine = 0
while True:
    with r.lock(key, timeout=20, sleep=0.003):
        os.close(os.open(dir + "/inside", os.O_CREAT | os.O_EXCL))
        with open(dir + "/count") as f: n = int(f.read())
        if n < limit:
            with open(dir + "/count", "w") as f: f.write(str(n + 1))
        os.remove(dir + "/inside")
    if n == limit: break
    mine += 1
    time.sleep(random.random() * 0.008)
print(mine)
`
