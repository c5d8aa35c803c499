// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// spoil damages the file of a lock that nobody holds.
func (w *world) spoil(name string) string {
	w.Helper()
	w.pawl("run", name, "true").end(0)
	file := w.dir + "/locks/" + name + ".lock"
	if err := os.WriteFile(file, []byte(strings.Repeat("nonsense", 2000)), 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}

// TestWatchWithADamagedFile: it is told once, by name, and what happens to other locks is told as
// before; and what is left of the file goes away with it.
func TestWatchWithADamagedFile(t *testing.T) {
	w := newWorld(t)
	file := w.spoil("spoilt")
	holder := w.holds("deploy")
	p := w.pawl("watch")
	w.until("all is told", func() bool {
		return strings.Contains(p.stdout(), "  held      deploy") && strings.Contains(p.stdout(), "  unread    spoilt  ")
	})
	w.free(holder)
	w.until("the release is told", func() bool { return strings.Contains(p.stdout(), "  released  deploy") })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.remove("in", "out")
	again := w.holds("spoilt")
	w.until("the new file is read", func() bool { return strings.Contains(p.stdout(), "  granted   spoilt") })
	if text := p.stdout(); strings.Count(text, "unread") != 1 || strings.Contains(text, "silent") || !strings.Contains(text, "delete the file") {
		t.Errorf("told %s", text)
	}
	p.signal(syscall.SIGINT)
	p.end(-int(syscall.SIGINT))
	w.free(again)
}

// TestFIFOStopsNothing: anybody can make one in a shared directory. Every command ends, and tells of it.
func TestFIFOStopsNothing(t *testing.T) {
	w := newWorld(t)
	holder := w.holds("deploy")
	if err := syscall.Mkfifo(w.dir+"/locks/trap.lock", 0o666); err != nil {
		t.Fatal(err)
	}
	const told = "trap.lock: not a regular file"
	for args, code := range map[string]int{
		"ls": exit.Unavailable, "show trap": exit.Unavailable, "wait trap --no-wait": exit.Unavailable,
		"break trap --force --why x": exit.Unavailable, "run trap --no-wait true": exit.Unavailable, "doctor": 2,
	} {
		p := w.pawl(strings.Fields(args)...)
		p.end(code)
		if all := p.stdout() + p.stderr(); !strings.Contains(strings.Join(strings.Fields(all), " "), told) {
			t.Errorf("%s: %q; want %q", args, all, told)
		} else if args == "ls" && !strings.Contains(all, "deploy") {
			t.Errorf("%s: %q; want the other lock as well", args, all)
		}
	}
	serve := w.pawl("serve", "--listen", "127.0.0.1:0")
	w.until("it listens", func() bool { return strings.HasSuffix(serve.stdout(), "/\n") })
	for _, path := range []string{"api/locks", "metrics"} {
		r, err := http.Get(strings.TrimSpace(strings.TrimPrefix(serve.stdout(), "listening at ")) + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || path == "api/locks" && (!strings.Contains(string(body), told) || !strings.Contains(string(body), "deploy")) {
			t.Errorf("%s: %s (%v)", path, body, err)
		}
	}
	serve.signal(syscall.SIGTERM)
	serve.end(0)
	w.free(holder)
}

// TestWatchOfADamagedFile: of one name, while it is held.
func TestWatchOfADamagedFile(t *testing.T) {
	w := newWorld(t)
	w.spoil("spoilt")
	p := w.pawl("watch", "--json", "spoilt")
	w.until("it is told", func() bool {
		return strings.Contains(p.stdout(), `"event":"unread"`) && strings.Contains(p.stdout(), `"name":"spoilt","error":"`)
	})
	p.signal(syscall.SIGINT)
	p.end(-int(syscall.SIGINT))
}
