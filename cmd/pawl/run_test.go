// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSignalReachesCommand(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "sh", "-c", `trap 'echo got; exit 5' TERM; touch $W/in; while :; do sleep 0.02; done`)
	w.appears("in")
	p.signal(syscall.SIGTERM)
	p.end(5)
	if p.stdout() != "got\n" || strings.Contains(p.stderr(), "pawl") { // the shell may say "Terminated"
		t.Errorf("stdout %q, stderr %q", p.stdout(), p.stderr())
	}
	p = w.pawl("run", "x", "sh", "-c", `touch $W/in2; exec sleep 100`)
	w.appears("in2")
	p.signal(syscall.SIGHUP)
	p.end(128 + 1)
}

func TestSecondSignalKills(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "sh", "-c", `trap 'touch $W/got' INT; touch $W/in; while :; do sleep 0.02; done`)
	w.appears("in")
	p.signal(syscall.SIGINT)
	w.appears("got")
	time.Sleep(1100 * time.Millisecond) // a second one within a second is an echo
	p.signal(syscall.SIGINT)
	p.end(137)
}

// timeout(1) sends TERM to its child and then to its group, which is the child
// once more.
func TestEchoedSignal(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "x", "sh", "-c", `trap 'echo got; sleep 0.5; exit 5' TERM; touch $W/in; while :; do sleep 0.02; done`)
	w.appears("in")
	p.signal(syscall.SIGTERM)
	time.Sleep(5 * time.Millisecond) // or else the kernel merges them
	p.signal(syscall.SIGTERM)
	p.end(5)
	if p.stdout() != "got\n" {
		t.Errorf("stdout %q", p.stdout())
	}
}

func TestSignalWhileWaiting(t *testing.T) {
	w := newWorld(t)
	first := w.holds("x")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := w.pawl("run", "x", "--ttl", "6m", "--grace", "2m", "touch", "never")
		w.until("it waits", func() bool { return strings.Contains(p.stderr(), "waiting") })
		p.signal(sig)
		if sig == syscall.SIGINT {
			p.end(-int(sig)) // so that a script that we are part of ends too
		} else {
			p.end(128 + int(sig))
		}
	}
	w.free(first)
	if w.exists("never") {
		t.Error("the command was started")
	}
}

func TestWaitingLine(t *testing.T) {
	w := newWorld(t)
	first := w.holds("x", "--why", "release 7")
	began := time.Now()
	second := w.pawl("run", "x", "echo", "hi")
	w.until("the line is there", func() bool { return strings.HasSuffix(second.stderr(), "\n") })
	if d := time.Since(began); d < time.Second {
		t.Errorf("it came after %v", d)
	}
	third := w.pawl("run", "x", "true")
	w.until("the line is there", func() bool { return strings.HasSuffix(third.stderr(), "\n") })
	quiet := w.pawl("run", "-q", "--events", "ev", "x", "true")
	// The event comes when the line would; the waiter after the quiet one has
	// written its own by now.
	w.until("the quiet one would have written it", func() bool { return strings.Contains(w.read("ev"), `"event":"waiting"`) })
	last := w.pawl("run", "x", "true")
	w.until("the line is there", func() bool { return strings.HasSuffix(last.stderr(), "\n") })
	if second.ended() || third.ended() {
		t.Error("two holders")
	}
	w.free(first)
	second.end(0)
	third.end(0)
	quiet.end(0)
	last.end(0)
	line := second.stderr()
	for _, part := range []string{`pawl: waiting for "x": held by `, "release 7", `"sh"`, "you are next\n"} {
		if !strings.Contains(line, part) || strings.Count(line, "\n") != 1 {
			t.Errorf("stderr %q, want one line with %q", line, part)
		}
	}
	if second.stdout() != "hi\n" || !strings.Contains(third.stderr(), "1 ahead of you") || quiet.stderr() != "" {
		t.Errorf("stdout %q, stderr of the third %q, of the quiet %q", second.stdout(), third.stderr(), quiet.stderr())
	}
}

// killWrapper is a part of a script that kills pawl, which is the parent of the command's parent.
const killWrapper = `kill -9 $(cut -d " " -f 4 /proc/$PPID/stat);`

// A pipeline ends with its work: no process of pawl keeps the pipe open, also
// not the guard while it waits for the command.
func TestPipelineEnds(t *testing.T) {
	w := newWorld(t)
	q := w.sh(`$P run x --ttl 6m --grace 2m -- sh -c 'trap "touch termed" TERM; ` + killWrapper + ` exec >/dev/null 2>&1; while ! test -e out; do sleep 0.02; done' 2>&1 | cat; touch over`)
	w.appears("termed")
	w.appears("over")
	if len(w.guards()) == 0 {
		t.Error("the guard does not wait for the command")
	}
	w.free(q)
	p := w.sh(`$P run x -- echo hi 2>&1 | cat; $P run x -- sh -c 'trap "" TERM; ` + killWrapper + ` echo ho' 2>&1 | cat`)
	p.end(0)
	if p.stdout() != "hi\nho\n" {
		t.Errorf("stdout %q", p.stdout())
	}
}

// Descriptors that the caller opened for the command are under their numbers.
func TestDescriptorsPassThrough(t *testing.T) {
	w := newWorld(t)
	p := w.sh(`echo three >f3; echo four >f4; $P run x --events fd:5 -- sh -c 'cat <&3; cat <&4; { echo no >&5; } 2>/dev/null; true' 3<f3 4<f4 5>ev`)
	p.end(0)
	if p.stdout() != "three\nfour\n" || strings.Contains(w.read("ev"), "no\n") || !strings.Contains(w.read("ev"), `"event":"started"`) {
		t.Errorf("stdout %q, stderr %q, events %q", p.stdout(), p.stderr(), w.read("ev"))
	}
}

// nohup's effect reaches the command, and no signal is ignored because of us.
func TestIgnoredSignals(t *testing.T) {
	script := `grep SigIgn /proc/self/status`
	for _, signals := range []string{"HUP", "INT", "TSTP", "TTIN", "TTOU", "HUP INT TSTP TTIN TTOU"} {
		t.Run(signals, func(t *testing.T) {
			w := newWorld(t)
			all := func(name string) string {
				return `(trap '' ` + signals + `; ` + script + `; $P run ` + name + ` ` + script + `); ` + script + `; $P run ` + name + `2 ` + script
			}
			p, s := w.sh(all("x")), w.terminal("/bin/sh", "-c", all("y"))
			p.end(0)
			s.end("0")
			for where, text := range map[string]func() string{"without a terminal": p.stdout, "in a terminal": s.text} {
				var got []string
				poll(func() bool {
					got = strings.Fields(strings.ReplaceAll(text(), "SigIgn:", ""))
					return len(got) >= 4
				})
				if len(got) != 4 || got[0] != got[1] || got[2] != got[3] || got[0] == got[2] {
					t.Errorf("%s: ignored signals without and with pawl: %q", where, got)
				}
			}
		})
	}
}

// A reader of stderr that goes away does not end pawl.
func TestBrokenStderr(t *testing.T) {
	w := newWorld(t)
	c := exec.Command(w.exe, "run", "--events", "fd:2", "x", "--", "sh", "-c", "sleep 0.1; exit 3")
	c.Env, c.Dir = w.env(), w.dir
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = wr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	wr.Close()
	r.Close()
	if got := exitCode(c.Wait()); got != "3" {
		t.Errorf("exit code %s", got)
	}
}

// The guard and the stub do their work before the clients of stores are initialised,
// which takes longer than their work.
func TestPartsBeginEarly(t *testing.T) {
	initialised := func(word string) string {
		cmd := exec.Command("pawl", word)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "\ninit os ") {
			t.Fatalf("pawl %s says %q (%v); want the packages that are initialised", word, out, err)
		}
		return string(out)
	}
	for _, client := range []string{"google.golang.org/grpc", "github.com/redis/rueidis", "github.com/go-zookeeper/zk", "net/http"} {
		line := "\ninit " + client + " "
		for _, part := range []string{"__guard", "__exec"} {
			if strings.Contains(initialised(part), line) {
				t.Errorf("%s has to wait for %s", part, client)
			}
		}
		if !strings.Contains(initialised("version"), line) {
			t.Errorf("%s has nothing to initialise: name another package", client)
		}
	}
}
