// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// TestNestedTakesTheSameLock: a script that takes a lock in its default store takes the very same
// lock when something calls it beneath a "pawl run" with another store.
func TestNestedTakesTheSameLock(t *testing.T) {
	w := newWorld(t)
	store := w.blessed("redis://" + startRedis(t))
	for _, variable := range []string{"unset PAWL_STORE; ", "", "export PAWL_STORE=" + store + "; "} {
		script := variable + `$P run -n nightly -- `
		alone := w.sh(script + `sh -c '` + holdUntil + `'`)
		w.appears("in")
		for _, outer := range []string{store, "file://" + w.dir + "/other", "memory://"} {
			beneath := w.pawl("run", "-s", outer, "deploy", "--", "sh", "-c", script+"touch both")
			beneath.end(exit.Busy)
			if w.exists("both") {
				t.Errorf("with %q a script and the same script beneath pawl run -s %s both have the lock", variable, outer)
			}
		}
		w.free(alone)
		w.remove("in", "out")
	}
}

// TestNestedPassword: the command does not see the password of its store, and a "pawl run"
// in it works all the same, however deep it is.
func TestNestedPassword(t *testing.T) {
	w := newWorld(t)
	addr := startRedis(t, "--requirepass", "s3cret")
	w.pawl("bless", "--yes", "-s", "redis://:s3cret@"+addr).end(0)
	for _, c := range []struct{ name, given, flags, inner string }{
		{"in the URL of the flag", "", "-s redis://:s3cret@" + addr, "-s redis://:s3cret@" + addr},
		{"in the URL of the variable", "export PAWL_STORE=redis://:s3cret@" + addr, "", ""},
		{"in a variable", "export PAWL_REDIS_PASSWORD=s3cret", "-s redis://" + addr, "-s redis://" + addr},
		{"in a variable beside that of the store", "export PAWL_REDIS_PASSWORD=s3cret PAWL_STORE=redis://" + addr, "", ""},
		{"kept", "export PAWL_REDIS_PASSWORD=s3cret", "--keep-passwords -s redis://" + addr, "-s redis://" + addr},
		{"another inside", "export PAWL_REDIS_PASSWORD=wrong PAWL_STORE=file://" + w.dir + "/locks", "", "-s redis://:s3cret@" + addr},
	} {
		p := w.sh(c.given + "\n$P run " + c.flags + ` a -- sh -c 'env >env1; $P run ` + c.inner + ` b -- sh -c "env >env2; \$P run ` + c.inner + ` c -- sh -c \"env >env3\""'`)
		p.end(0)
		for _, file := range []string{"env1", "env2", "env3"} {
			env := w.read(file)
			for line := range strings.Lines(env) {
				key, value, _ := strings.Cut(line, "=")
				if strings.Contains(value, "s3cret") && key != "PAWL_STORE" && c.name != "kept" {
					t.Errorf("password %s: %s has %s", c.name, file, line)
				}
			}
			if !strings.Contains(env, "\nPAWL_LEASE_STORE=") && !strings.HasPrefix(env, "PAWL_LEASE_STORE=") {
				t.Errorf("password %s: %s does not name the store of the lease: %s", c.name, file, env)
			}
		}
		if kept := strings.Contains(w.read("env1"), "PAWL_REDIS_PASSWORD=s3cret"); kept != (c.name == "kept") {
			t.Errorf("password %s: the command inherits it: %v", c.name, kept)
		}
		w.remove("env1", "env2", "env3")
	}
}

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
