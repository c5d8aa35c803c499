// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestLsWatchOnATerminal: the list is drawn where it was, and shows what has changed.
func TestLsWatchOnATerminal(t *testing.T) {
	w := newWorld(t)
	s := w.terminal("env", "TERM=xterm", w.exe, "ls", "--watch")
	s.shows("nobody holds a lock")
	holder := w.pawl("run", "deploy", "--why", "release 7", "--", "sh", "-c", holdUntil)
	s.shows("release 7")
	s.typing("\x03")
	s.end("-2")
	if text := s.text(); !strings.HasPrefix(text, "\x1b[H") || strings.Count(text, "\x1b[H") < 2 || strings.Contains(text, "\n\r\n") {
		t.Errorf("the screen gets %q", text)
	}
	w.create("out")
	holder.end(0)
}

// TestLsWatchInAPipe: one list below the other.
func TestLsWatchInAPipe(t *testing.T) {
	w := newWorld(t)
	holder := w.pawl("run", "deploy", "--why", "release 7", "--", "sh", "-c", holdUntil)
	w.appears("in")
	p := w.pawl("ls", "--watch")
	w.until("a second list", func() bool { return strings.Count(p.stdout(), "release 7\n") == 2 })
	if got := p.stdout(); !strings.HasPrefix(got, "NAME ") || strings.Count(got, "\n\nNAME ") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("stdout is %q", got)
	}
	p.signal(syscall.SIGINT)
	p.end(-int(syscall.SIGINT))
	w.create("out")
	holder.end(0)
}
