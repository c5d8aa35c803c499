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
	if text := s.text(); !strings.HasPrefix(text, home) || strings.Count(text, home) < 2 || strings.Contains(text, "\n\r\n") {
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

// TestDrawn: what does not fit is counted.
func TestDrawn(t *testing.T) {
	const list = "NAME\na\nb\nc\nd\n"
	for rows, want := range map[int]string{
		24: "note|NAME|a|b|c|d|",
		7:  "note|NAME|a|b|c|d|",
		6:  "note|NAME|a|b|… and 2 more|",
		2:  "note|… and 5 more|",
	} {
		got := drawn([]string{"note"}, list, 80, rows)
		got = strings.TrimSuffix(strings.TrimPrefix(got, home), clearBelow)
		if got = strings.ReplaceAll(got, clearLine+"\n", "|"); got != want {
			t.Errorf("%d rows: %s, want %s", rows, got, want)
		}
	}
	if got := drawn([]string{strings.Repeat("x", 100)}, list, 80, 7); !strings.Contains(got, "… and") {
		t.Errorf("a note takes two rows: %q", got)
	}
	if got := drawn([]string{"note"}, "", 80, 8); got != home+"note"+clearLine+"\n"+clearBelow {
		t.Errorf("without locks: %q", got)
	}
}
