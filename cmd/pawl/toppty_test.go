// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inTop runs top on a terminal, between two lines that say how the terminal is set.
func (w *world) inTop(env string, flags string) *screen {
	w.Helper()
	return w.terminal("/bin/sh", "-c", "trap : INT; stty -g; env TERM=xterm LANG=C.UTF-8 LC_ALL= "+env+" $P top "+flags+"; echo code $?; stty -g")
}

// restored waits until top has ended and checks that the terminal is as it was.
func (s *screen) restored() {
	s.Helper()
	s.shows("code 0")
	s.end("0")
	var first, last string
	same := func() bool { // what was written last may be read after the end
		lines := strings.Split(strings.TrimSpace(s.text()), "\r\n")
		first, last = lines[0], lines[len(lines)-1]
		return first == last && strings.Count(first, ":") > 10
	}
	if !poll(same) {
		s.Errorf("the terminal was %q and is %q", first, last)
	}
	for _, code := range []string{"\x1b[?1049", "\x1b[?25"} { // the other screen; the cursor
		if in, out := strings.LastIndex(s.text(), code+"l"), strings.LastIndex(s.text(), code+"h"); in < 0 || out < 0 || (in > out) != (code == "\x1b[?1049") {
			s.Errorf("%q is not undone", code)
		}
	}
}

var control = regexp.MustCompile(`\x1b(\[[0-9;?>]*[A-Za-z]|\(B|\]8;;\x1b\\)`)

// frame returns the words that were drawn last.
func (s *screen) frame() string {
	frames := strings.Split(s.text(), "\x1b[?2026h")
	for _, f := range slices.Backward(frames) {
		if drawn, _, ok := strings.Cut(f, "\x1b[?2026l"); ok {
			return strings.Join(strings.Fields(control.ReplaceAllString(drawn, " ")), " ")
		}
	}
	return ""
}

// draws waits until words are on the screen.
func (s *screen) draws(words string) {
	s.Helper()
	if !poll(func() bool { return strings.Contains(s.frame(), words) }) {
		s.Fatalf("%q is not drawn; processes %q; drawn: %s", words, s.processes(), s.frame())
	}
}

// TestTopEnds: Ctrl-C and signals leave the terminal as it was, and the shell gets it by Ctrl-Z.
func TestTopEnds(t *testing.T) {
	w := newWorld(t)
	s := w.inTop("", "")
	s.draws("held 0")
	s.typing("\x03")
	s.restored()

	s = w.terminal("/bin/sh", "-c", "stty -g; TERM=xterm $P top & wait; echo code $?; stty -g") // no job control: it is in front
	s.draws("held 0")
	for _, p := range w.processes() {
		if pid, ok := strings.CutSuffix(p, " "+w.exe+" top "); ok {
			w.start("/bin/kill", "-TERM", pid).end(0)
		}
	}
	s.restored()

	s = w.terminal("/bin/bash", "--norc", "--noprofile", "--noediting", "-i")
	s.typing("stty -g; TERM=xterm $P top\n")
	s.draws("held 0")
	s.typing("\x1a")
	s.shows("Stopped")
	s.typing("echo shell has it$((1+1))\n")
	s.shows("shell has it2")
	s.typing("fg\n")
	w.until("it is drawn again", func() bool { return strings.Count(s.text(), "\x1b[?1049h") == 2 })
	s.typing("q")
	w.until("it has ended", func() bool { return strings.Count(s.text(), "\x1b[?1049l") == 2 })
	s.typing("echo co''de $?; exit 0\n")
	s.shows("code 0")
	s.end("0")
}

// TestTopColours: none if somebody wants none.
func TestTopColours(t *testing.T) {
	w := newWorld(t)
	colour := regexp.MustCompile(`\x1b\[([0-9;]*;)?([34][0-8]|9[0-7]|10[0-7])[;m]`)
	for _, c := range []struct {
		env, flag string
		want      bool
	}{{"", "", true}, {"NO_COLOR=1", "", false}, {"", "--no-color", false}} {
		s := w.inTop(c.env, c.flag+" -s redis://127.0.0.1:1")
		s.draws("does not answer")
		s.typing("q")
		s.restored()
		if got := colour.MatchString(s.text()); got != c.want {
			t.Errorf("%+v: colours: %v; %q", c, got, s.text())
		}
	}
}
