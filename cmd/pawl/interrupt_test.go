// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
)

// Ctrl-C reaches the command alone: pawl does not die of it, and forwards
// nothing, so that the command is told once.
func TestInterrupt(t *testing.T) {
	w := newWorld(t)
	s := w.terminal("/bin/sh", "-c", `trap : INT; $P run x -- sh -c 'echo ready; exec sleep 100'; echo "code $?"`)
	s.shows("ready")
	s.typing("\x03")
	s.shows("code 130")
	s.end("0")
	// A script ends with the command that it runs, as without pawl.
	s = w.terminal("bash", "-c", `$P run x -- sh -c 'echo ready; exec sleep 100'; echo "code $?"; true`)
	s.shows("ready")
	s.typing("\x03")
	s.end("-2")
	if strings.Contains(s.text(), "code") {
		t.Errorf("the script went on:\n%s", s.text())
	}
	s = w.terminal(w.exe, "run", "x", "--", "sh", "-c", `trap 'echo once' INT; echo ready; read a; read a; echo end $a`)
	s.shows("ready")
	s.typing("\x03")
	s.shows("once")
	s.typing("a\nb\n")
	s.shows("end")
	s.end("0")
	if strings.Count(s.text(), "once") != 1 {
		t.Errorf("screen:\n%s", s.text())
	}
}

// Ctrl-C ends a script also where it reaches pawl: when the command is not in
// the foreground, and while pawl waits.
func TestInterruptedScript(t *testing.T) {
	w := newWorld(t)
	first := w.holds("held")
	for _, c := range []struct{ script, shows string }{
		{`$P run x -- sh -c 'echo ready >&2; exec sleep 100' </dev/null`, "ready"},
		{`$P run x -- sh -c 'echo ready >&2; exec sleep 100' >/dev/null`, "ready"},
		{`$P run held true`, "waiting"},
	} {
		s := w.terminal("bash", "-c", c.script+`; echo "code $?"; true`)
		s.shows(c.shows)
		s.typing("\x03")
		s.end("-2")
		if strings.Contains(s.text(), "code") {
			t.Errorf("the script went on:\n%s", s.text())
		}
	}
	// INT that only the command got, from somebody else, is the command's.
	p := w.sh(`trap 'echo no' INT; $P run x -- sh -c 'kill -INT $$'; echo $?`)
	p.end(0)
	if p.stdout() != "130\n" {
		t.Errorf("stdout %q", p.stdout())
	}
	w.free(first)
}
