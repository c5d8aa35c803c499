// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// refusal is how a store is refused: the exit code tells a mistake in the URL from a server that is away.
type refusal struct {
	store, want string
	code        int
}

// refuses checks that commands end soon, and say what to type in one line without the password.
func (w *world) refuses(all []refusal, commands ...string) {
	w.Helper()
	for _, r := range all {
		for _, line := range commands {
			began := time.Now()
			words := strings.Fields(line)
			p := w.pawl(append(words[:1:1], append([]string{"-s", r.store}, words[1:]...)...)...)
			p.end(r.code)
			if got := p.stderr(); !strings.Contains(got, r.want) || strings.Contains(got, "s3cret") || strings.Count(got, "\n") != 1 {
				w.Errorf("%s: stderr is %q; want one line with %q", line, got, r.want)
			}
			if d := time.Since(began); d > ample/2 {
				w.Errorf("%s: %v", line, d)
			}
		}
	}
}

// serves checks that the commands do on a store at addr what they do on files, and
// that nobody sees its password.
func (w *world) serves(store, addr, name, ttl string) {
	w.Helper()
	run := func(words ...string) *proc {
		return w.pawl(append(words[:1:1], append([]string{"-s", store}, words[1:]...)...)...)
	}
	holder := run("run", name, "--ttl", ttl, "--why", "release 7", "--", "sh", "-c", `echo "$PAWL_LEASE_STORE $PAWL_TOKEN" >$W/env;`+holdUntil)
	w.until("the command runs", func() bool { return w.exists("in") || holder.ended() })
	if !w.exists("in") {
		w.Fatalf("it has ended: %v; stderr %q", holder.err, holder.stderr())
	}
	for line := range strings.Lines(holder.stderr()) {
		if !strings.HasPrefix(line, "pawl: waiting for ") {
			w.Errorf("stderr has %q; want at most that it waits", line)
		}
	}
	if got := w.read("env"); strings.Contains(got, "s3cret") || !strings.Contains(got, addr) {
		w.Errorf("the command gets the store and token %q", got)
	}
	var busy *proc
	w.until("another is told that it is busy", func() bool { // a busy machine may not answer in time
		busy = run("run", "-n", "--ttl", ttl, name, "true")
		<-busy.done
		return exitCode(busy.err) == strconv.Itoa(exit.Busy)
	})
	if got := busy.stderr(); !strings.Contains(got, "release 7") || strings.Contains(got, "s3cret") {
		w.Errorf("stderr is %q; want the holder", got)
	}
	waiter := run("run", "--ttl", ttl, "--why", "release 8", name, "touch", "next")
	w.until("the waiter waits", func() bool {
		show := run("show", name)
		<-show.done
		return strings.Contains(show.stdout(), "release 7") && strings.Contains(show.stdout(), "release 8")
	})
	w.until("ls names the lock", func() bool {
		ls := run("ls")
		<-ls.done
		return ls.err == nil && strings.Contains(ls.stdout(), name)
	})
	run("break", name, "--force", "--why", "it hangs").end(0)
	holder.end(exit.Lost, "it hangs")
	waiter.end(0)
	w.appears("next")

	// Another master of a cluster may be in quarantine for a moment longer.
	said := ""
	defer func() {
		if w.Failed() {
			w.Logf("the doctor has said last:\n%s", said)
		}
	}()
	w.until("the doctor finds nothing", func() bool {
		doctor := run("doctor")
		<-doctor.done
		said = doctor.stdout() + doctor.stderr()
		return doctor.err == nil && strings.HasSuffix(doctor.stdout(), "nothing is wrong\n")
	})
	hold := run("hold", name, "--ttl", ttl, "--for", "1s", "--why", "maintenance")
	w.until("it is held", func() bool { return strings.Contains(hold.stderr(), "holding") })
	run("wait", name, "-w", "20s").end(0)
	hold.end(0)
}

// startEtcd starts an etcd server with a user and returns its address.
func startEtcd(t *testing.T) string {
	t.Helper()
	m := servers.StartEtcd(t, 1, "--bcrypt-cost", "4")[0] // each pawl sends the password
	for _, words := range [][]string{
		{"user", "add", "root:top"}, {"user", "grant-role", "root", "root"}, {"user", "add", "me:s3cret"},
		{"role", "add", "locks"}, {"role", "grant-permission", "locks", "readwrite", "--prefix", "ci/locks/"},
		{"user", "grant-role", "me", "locks"}, {"auth", "enable"},
	} {
		if _, err := m.Ctl(append([]string{"--command-timeout", "20s"}, words...)...); err != nil {
			t.Fatal(err)
		}
	}
	return m.Addr
}

// TestEtcd: on an etcd cluster the commands do what they do on files.
func TestEtcd(t *testing.T) {
	w := newWorld(t)
	addr := startEtcd(t)
	w.serves("etcd://me:s3cret@"+addr+"/ci/locks", addr, "deploy/prod", "10s")
	w.refuses([]refusal{
		{"etcd://me:wrong-s3cret@" + addr, "password", exit.Denied},
		{"etcd://me:s3cret@" + addr, "may not read and write", exit.Denied},
		{"etcd://127.0.0.1:1,127.0.0.1:2", "is the server running", exit.Unavailable},
		{"etcd://me:s3cret@" + addr + "?nonsense=1", "nonsense", exit.Config},
	}, "run deploy true")
}

// startZooKeeper starts a ZooKeeper server and returns its address.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	return servers.StartZooKeeper(t, "tickTime=500").Addr
}

// TestZooKeeper: on a ZooKeeper server the commands do what they do on files.
func TestZooKeeper(t *testing.T) {
	w := newWorld(t)
	addr := startZooKeeper(t)
	store := "zk://me:s3cret@" + addr + "/locks?tick_time=500ms"
	w.serves(store, addr, "deploy", "10s")
	w.refuses([]refusal{
		{"zk://me:s3cret@127.0.0.1:1", "is the server running", exit.Unavailable},
		{"zk://me:s3cret@" + addr + "?nonsense=1", "nonsense", exit.Config},
		{"zk://me:s3cret@" + addr, "at most", exit.Config},
	}, "run --ttl 10m deploy true")
}
