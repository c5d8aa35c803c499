// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestFewFiles: with hardly any descriptors pawl says so, and the runtime no trace.
func TestFewFiles(t *testing.T) {
	w := newWorld(t)
	for n := 4; n <= 20; n++ {
		for _, args := range []string{"ls", "run x -- true"} {
			p := w.sh(fmt.Sprintf("ulimit -n %d; exec $P %s", n, args))
			w.until("it ends", p.ended)
			if text := p.stderr(); strings.Contains(text, "goroutine") || text != "" && (!strings.Contains(text, "ulimit -n") || strings.Count(text, "\n") != 1) {
				t.Errorf("ulimit -n %d, %s: %.300q; want one line that says what to type, or none", n, args, text)
			}
		}
	}
}

// TestNoPath: without PATH, commands are looked for where execvp(3) does it.
func TestNoPath(t *testing.T) {
	w := newWorld(t)
	p := w.sh(`exec env -u PATH $P run x -- echo found`)
	p.end(0)
	if got := p.stdout(); got != "found\n" {
		t.Errorf("%q; want what echo says", got)
	}
	p = w.sh(`exec env -u PATH $P run x -- nosuch`)
	p.end(127)
}
