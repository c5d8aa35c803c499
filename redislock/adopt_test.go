// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestAdoptForeign: what another library has is known by its whole value, and neither
// renewed nor released by it.
func TestAdoptForeign(t *testing.T) {
	t.Parallel()
	r := patternedServer(t)
	s := open(t, r.url(), patterned())
	for _, value := range []string{"random", "a client", "lease client 1 2", ""} {
		r.do("set", "lock:deploy", value, "px", "60000")
		for _, id := range []string{value, "lease", "a"} {
			if g, err := s.Adopt(t.Context(), "deploy", id); g != nil || !errors.Is(err, driver.ErrLost) {
				t.Errorf("Adopt(%q) of %q = %v, %v; want ErrLost", id, value, g, err)
			}
		}
		if got := r.do("get", "lock:deploy"); got != value {
			t.Errorf("the lock is %q; want %q", got, value)
		}
	}
	for _, words := range [][]string{{"hset", "lock:deploy", "lease", "1"}, {"zadd", "lock:deploy", "1", "lease"}, {"zadd", "lock:deploy", "4e15", "lease client"}} {
		r.do("del", "lock:deploy")
		r.do(words...)
		if g, err := s.Adopt(t.Context(), "deploy", "lease"); g != nil || !errors.Is(err, driver.ErrLost) {
			t.Errorf("Adopt of %q = %v, %v; want ErrLost", words, g, err)
		}
	}
}
