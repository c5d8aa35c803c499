// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// linked is a participant with a link that can be cut.
type linked struct {
	*party
	link *drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewStore(context.Background(), "redis://"+link.Addr(), opts)
	must(t, err)
	p := asParty(d)
	t.Cleanup(func() { p.Close() })
	return &linked{p, link}
}

// left lists the keys of names that begin with prefix.
func (s *redis) left(prefix string) (keys []string) {
	for key := range strings.Lines(s.do("keys", lockKey("*", prefix+"*")+"*")) {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
