// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// clock is a wall clock for servers, which libfaketime makes them use.
type clock struct {
	file string
	lib  string

	mu    sync.Mutex
	ahead int // seconds
}

// newClock makes a clock in a file. The servers' user must be able to read the file.
func newClock(file string) (*clock, error) {
	lib, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(lib) == 0 {
		return nil, errors.New("libfaketime is missing: apt-get install faketime")
	}
	c := &clock{file: file, lib: lib[0]}
	return c, c.step(0)
}

// env returns the environment of a server that uses the clock. It also preloads the given libraries.
func (c *clock) env(libraries ...string) []string {
	return []string{"LD_PRELOAD=" + strings.Join(append([]string{c.lib}, libraries...), " "), "FAKETIME_TIMESTAMP_FILE=" + c.file,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
}

// step sets the clock forward by some seconds, or back if they are negative.
func (c *clock) step(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += seconds
	if err := os.WriteFile(c.file+".new", fmt.Appendf(nil, "%+d\n", c.ahead), 0o644); err != nil {
		return err
	}
	return os.Rename(c.file+".new", c.file)
}

// clockFaults returns faults that set the wall clock of a server. Servers end leases by their wall
// clock, so setting it forward is beyond what is promised. For the same reason a clock that was
// set back stays back.
func clockFaults(draw func(*Act) *clock) []Fault {
	step := func(sign int) func(*Act) error {
		return func(a *Act) error {
			seconds := sign * (1 + a.Rand.IntN(600))
			a.Note("by %d s", seconds)
			if err := draw(a).step(seconds); err != nil {
				return err
			}
			a.Last(a.TTL/4, 2*a.TTL)
			return nil
		}
	}
	return []Fault{
		{Kind: "clock back", Do: step(-1)},
		{Kind: "clock forward", Beyond: "the server's clock is set forward", Do: step(+1)},
	}
}
