// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestNamesDoNotLeak: of names that are not used any more the server keeps 8192 floors
// of their tokens at most, for a day, and then nothing. It is not parallel to others, which it would
// disturb. It uses 10,000 names, or as many as LEAK_NAMES says.
func TestNamesDoNotLeak(t *testing.T) {
	names := 10_000
	if n, err := strconv.Atoi(os.Getenv("LEAK_NAMES")); err == nil {
		names = n
	}
	r := newServer(t)
	r.Program = clockProgram
	r.begin()
	bless(t, r.url(), longOptions())
	c := openClient(t, r.url(), longOptions())
	number := func(args ...string) int {
		t.Helper()
		n, err := strconv.Atoi(r.do(args...))
		must(t, err)
		return n
	}
	start := number("dbsize") + 1 // the seal, which comes with the first grant
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := i; j < names; j += 64 {
				l, err := c.Acquire(t.Context(), "customer/"+strconv.Itoa(j))
				if err == nil {
					err = l.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	floors := number("dbsize") - start
	if floors > 8192 || floors != number("eval", "return #redis.call('keys', 'pawl:token:*')", "0") {
		t.Errorf("%d keys for %d names; want 8192 floors at most, and nothing else", floors, names)
	}
	longest := number("eval", `local longest = 0
		for _, key in ipairs(redis.call('keys', 'pawl:token:*')) do
			local left = redis.call('pttl', key)
			if left < 0 then return -1 end
			longest = math.max(longest, left)
		end
		return longest`, "0")
	if d := time.Duration(longest) * time.Millisecond; d <= 23*time.Hour || d > 24*time.Hour {
		t.Errorf("the tokens expire after %v at most; want 24 h", d)
	}
	// With libfaketime the server is too slow for what was before.
	set := r.fakeClock()
	r.do("save")
	r.restart()
	set(23 * time.Hour)
	if n := number("dbsize"); n != start+floors {
		t.Errorf("after 23 hours %d keys are left; want all", n-start)
	}
	set(25 * time.Hour)
	if !eventually(3*patience, func() bool { r.do("scan", "0", "count", strconv.Itoa(names)); return number("dbsize") == start }) {
		t.Errorf("after 25 hours %d keys are left; want none", number("dbsize")-start)
	}
}
