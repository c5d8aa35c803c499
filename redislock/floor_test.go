// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// together returns names whose locks have the same floor.
func together(s *party, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprint("customer/", i)
		if len(names) == 0 || s.server.FloorKey(lockKey(defaultPrefix, name)) == s.server.FloorKey(lockKey(defaultPrefix, names[0])) {
			names = append(names, name)
		}
	}
	return names
}

// TestSharedFloor: names that share a floor are granted together, and what is set aside for one
// of them stays below the floor, whatever the others are.
func TestSharedFloor(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	names := together(s, 3)
	key := s.server.FloorKey(lockKey(defaultPrefix, names[0]))
	floor := func() uint64 {
		n, err := strconv.ParseUint(r.do("get", key), 10, 64)
		must(t, err)
		return n
	}
	release(t, take(t, s, long(names[0]))) // makes the floor
	for range 2 {
		before, requests := floor(), [][2]string{}
		for i, name := range names {
			requests = append(requests, [2]string{name, fmt.Sprint("L", i)})
		}
		if got := runMany(t, s, acquireScript, []string{s.id, exclusive, "{}", "60000", claimMillis, defaultPrefix + "client:", "0", ""}, requests); !slices.Equal(got, []string{"1", "1", "1"}) {
			t.Fatalf("the answers are %v", got)
		}
		for _, name := range names {
			held := parseHeld(r.do("get", lockKey(defaultPrefix, name)), -1, time.Now())
			if token := uint64(held.Token); token <= before || token > floor() {
				t.Errorf("%s has token %d; the floor was %d and is %d", name, token, before, floor())
			}
			r.do("del", lockKey(defaultPrefix, name))
		}
	}
}
