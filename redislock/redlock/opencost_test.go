// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"strings"
	"testing"
)

// TestCostOfOpen: to open a client takes as many commands at each node as one of redislock, and
// two that ask for its state, and two for its record of the nodes.
func TestCostOfOpen(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, patient())
	open := func() {
		d := openDriver(t, f.url(), patient())
		for _, s := range d.Nodes(t.Context()) { // those that Open has not waited for
			if s.Err != nil {
				t.Error(s.Err)
			}
		}
	}
	open()
	const want = "info, script load, script load, evalsha, evalsha, script exists, evalsha, evalsha, evalsha, evalsha"
	got, err := f[0].Commands(open)
	if err != nil || strings.Join(got, ", ") != want {
		t.Errorf("a client: %v, %v; want %s", got, err, want)
	}
}
