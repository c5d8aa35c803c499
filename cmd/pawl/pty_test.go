// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// screen is a terminal with a process in it.
type screen struct {
	*world
	cmd *exec.Cmd
	pty *os.File

	mu  sync.Mutex
	out strings.Builder
}

func (w *world) terminal(path string, words ...string) *screen {
	w.Helper()
	c := exec.Command(path, words...)
	c.Dir, c.Env = w.dir, append(w.env(), "PS1=$ ", "TERM=dumb", "HISTFILE=")
	f, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		w.Fatal(err)
	}
	s := &screen{world: w, cmd: c, pty: f}
	w.Cleanup(func() { _ = c.Process.Kill(); f.Close() })
	go s.read()
	return s
}

func (s *screen) read() {
	b := make([]byte, 4096)
	for {
		n, err := s.pty.Read(b)
		s.mu.Lock()
		s.out.Write(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *screen) typing(text string) {
	s.Helper()
	if _, err := s.pty.WriteString(text); err != nil {
		s.Fatal(err)
	}
}

func (s *screen) shows(text string) {
	s.Helper()
	if !poll(func() bool { return strings.Contains(s.text(), text) }) {
		s.Fatalf("%q is not shown; processes %q; screen:\n%s", text, s.processes(), s.text())
	}
}

func (s *screen) end(code string) {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		if got := exitCode(err); got != code {
			s.Errorf("exit code %s, want %s; screen:\n%s", got, code, s.text())
		}
	case <-time.After(ample):
		s.Fatalf("does not end; processes %q; screen:\n%s", s.processes(), s.text())
	}
}

// foreground is a command that tells whether it is the terminal's foreground
// group: field 5 of stat is the group, field 8 the terminal's.
const foreground = `set -- $(cat /proc/self/stat); test $5 = $8 && echo in front || echo behind; `

func TestForeground(t *testing.T) {
	w := newWorld(t)
	s := w.terminal("/bin/sh", "-c", `$P run x -- sh -c '`+foreground+` read a; echo "got $a"'; echo "code $?"; `+foreground+` read b; echo "then $b"`)
	s.shows("in front")
	s.typing("one\n")
	s.shows("got one\r\ncode 0\r\nin front")
	s.typing("two\n")
	s.shows("then two")
	s.end("0")
}

// In a pipeline the others need the terminal as well. The command gets it when
// it asks.
func TestPipelineTerminal(t *testing.T) {
	w := newWorld(t)
	s := w.terminal("/bin/sh", "-c", `$P run x -- sh -c '`+foreground+` read a </dev/tty; echo "got $a"' | cat; echo "code $?"`)
	s.shows("behind")
	s.typing("one\n")
	s.shows("got one\r\ncode 0")
	s.end("0")
	s = w.terminal("/bin/sh", "-c", `trap : INT; $P run x -- sh -c 'trap "echo caught; exit 3" INT; echo ready; while :; do sleep 0.02; done' | sh -c 'trap "" INT; cat'; echo end`)
	s.shows("ready")
	s.typing("\x03")
	s.shows("caught")
	s.shows("end")
	s.end("0")
}

func TestJobControl(t *testing.T) {
	w := newWorld(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	s := w.terminal(bash, "--norc", "--noprofile", "--noediting", "-i")
	s.typing("$P run x -- sh -c 'echo re''ady; read a; echo got $a; read a; echo got $a'\n")
	s.shows("ready")
	s.typing("\x1a")
	s.shows("Stopped")
	s.typing("echo shell has it$((1+1))\n")
	s.shows("shell has it2")
	if !w.busy("x") {
		t.Error("a stopped job has lost the lock")
	}
	s.typing("fg\n")
	s.shows("fg\r\n")
	s.typing("one\n")
	s.shows("got one")
	s.typing("\x1a")
	if !poll(func() bool { return strings.Count(s.text(), "Stopped") == 2 }) {
		t.Fatalf("not stopped again; screen:\n%s", s.text())
	}
	// In the background it stops when it reads.
	s.typing("bg\n")
	w.until("pawl is stopped too", func() bool {
		s.typing("\n") // bash tells of its jobs before a prompt
		return strings.Count(s.text(), "Stopped") >= 3
	})
	s.typing("fg\ntwo\n")
	s.shows("got two")
	// A part of a pipeline gets the terminal without stopping first.
	s.typing("$P run x -- sh -c 'echo li''ne; read a </dev/tty; echo lazy $a' | cat\n")
	s.shows("line")
	s.typing("three\n")
	s.shows("lazy three")
	if strings.Count(s.text(), "Stopped") > 3 {
		t.Errorf("the pipeline was stopped; screen:\n%s", s.text())
	}
	s.typing("exit 7\n")
	s.end("7")
}

// A job that is continued after its lock was broken does not go on.
func TestContinuedAfterLoss(t *testing.T) {
	w := newWorld(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	s := w.terminal(bash, "--norc", "--noprofile", "--noediting", "-i")
	s.typing("$P run x --max-hold 2s --grace 500ms -- sh -c 'echo re''ady; read a; touch went; exec sleep 100'; echo code $?\n")
	s.shows("ready")
	s.typing("\x1a")
	s.shows("Stopped")
	w.until("the guard has ended it", func() bool {
		return !regexp.MustCompile(`(?m)^\d+ sh -c`).MatchString(strings.Join(w.processes(), "\n"))
	})
	s.typing("fg; echo co''de $?\n")
	s.shows("code 79")
	s.typing("exit 0\n")
	s.end("0")
}

// With pawl as the first process of its session nobody could continue it: then
// Ctrl-Z does nothing.
func TestStopWithoutShell(t *testing.T) {
	w := newWorld(t)
	s := w.terminal(w.exe, "run", "x", "--", "sh", "-c", "echo ready; read a; echo got $a")
	s.shows("ready")
	s.typing("\x1a")
	time.Sleep(50 * time.Millisecond)
	s.typing("one\n")
	s.shows("got one")
	s.end("0")
}

// On a terminal, what somebody has to know of a lock is on its line, however long the rest is.
func TestListOnATerminal(t *testing.T) {
	w := newWorld(t)
	holder := w.pawl("run", "deploy", "--publish-command-line", "--why", "release 7", "--", "sh", "-c", holdUntil, strings.Repeat("x", 150))
	w.appears("in")
	s := w.terminal(w.exe, "ls")
	s.shows("release 7")
	s.end("0")
	for line := range strings.Lines(s.text()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > 80 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
	w.free(holder)
}
