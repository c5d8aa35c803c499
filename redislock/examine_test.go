// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// Examine names each key that blocks a lock, and the command that deletes it. With the keys of living locks it
// finds nothing.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Fatal(err)
	}
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	look := func() (found []driver.Finding) {
		for _, f := range a.Examine(t.Context()) {
			if f.Check == "keys" {
				found = append(found, f)
			}
		}
		return found
	}
	readers := long("readers")
	readers.Shared = true
	writer, reader := take(t, a, long("deploy")), take(t, a, readers)
	waits := wait(t, r, b, long("deploy"))
	if found := look(); len(found) > 0 {
		t.Errorf("the keys of locks are not well: %+v", found)
	}
	floor := a.server.FloorKey(lockKey(defaultPrefix, "counted"))
	for key, c := range map[string]struct {
		make  []string
		level driver.Level
		text  string
		lock  string // that it blocks
	}{
		lockKey(defaultPrefix, "for ever"):     {[]string{"set", "", "1"}, driver.Problem, "has no TTL", "for ever"},
		lockKey(defaultPrefix, "hash"):         {[]string{"hset", "", "a", "1"}, driver.Problem, "is of another type", "hash"},
		lockKey(defaultPrefix, "stream's'"):    {[]string{"lpush", "", "a"}, driver.Problem, "is of another type", "stream's'"},
		lockKey(defaultPrefix, "set"):          {[]string{"zadd", "", "1", "a"}, driver.Problem, "is of another type", "set"},
		lockKey(defaultPrefix, "q") + ":queue": {[]string{"set", "", "1"}, driver.Problem, "nobody can wait", "q"},
		floor:                                  {[]string{"set", "", "x", "px", "500000"}, driver.Warning, "no lock can be granted", "counted"},
	} {
		c.make[1] = key
		r.do(c.make...)
		if _, err := b.TryAcquire(t.Context(), long(c.lock)); err == nil {
			t.Errorf("%q does not block %q", key, c.lock)
		}
		found := look()
		if len(found) != 1 || found[0].Level != c.level || !strings.Contains(found[0].Text, c.text) || !strings.Contains(found[0].Text, key) {
			t.Errorf("%q: found %+v; want %v %q", key, found, c.level, c.text)
			r.do("del", key)
			continue
		}
		_, command, _ := strings.Cut(found[0].Do, ": ")
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "1" {
			t.Errorf("%s: %s, %v", command, out, err)
		}
		release(t, take(t, b, long(c.lock)))
	}
	release(t, reader)
	release(t, writer)
	release(t, waits.granted(patience))
}
