// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// startRedis starts a redis-server without persistence and returns its address.
func startRedis(t *testing.T, args ...string) string {
	t.Helper()
	return servers.StartRedis(t, args...).Addr
}

// TestRedis: on a Redis server the commands do what they do on files.
func TestRedis(t *testing.T) {
	w, addr := newWorld(t), startRedis(t, "--requirepass", "s3cret")
	w.serves("redis://:s3cret@"+addr+"?max_ttl=10s", addr, "deploy", "10s")
}

// TestRedisCluster: and on a cluster. Its first clients give each hash slot a record, and the first lock in a
// slot that they did not come to waits; bless leaves none out.
func TestRedisCluster(t *testing.T) {
	w, addr := newWorld(t), startCluster(t, "--requirepass", "s3cret")
	w.serves(w.blessed("redis://:s3cret@"+addr+"?max_ttl=10s"), addr, "deploy", "10s")
}

// startCluster starts two masters that share the slots, and returns the address of
// the one that does not have the lock "deploy".
func startCluster(t *testing.T, args ...string) string {
	t.Helper()
	var all []*servers.Redis
	bus := ""
	for range 2 {
		_, bus, _ = net.SplitHostPort(drivertest.FreeAddr(t))
		all = append(all, servers.StartRedis(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus}, args...)...))
	}
	do := func(i int, words ...string) string {
		out, err := exec.Command("redis-cli", append([]string{"--no-auth-warning", "-a", "s3cret", "-u", "redis://" + all[i].Addr}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %v: %v\n%s", words, err, out)
		}
		return string(out)
	}
	do(0, "cluster", "addslotsrange", "0", "12000")
	do(1, "cluster", "addslotsrange", "12001", "16383") // pawl:{deploy} is in 15335
	host, port, _ := net.SplitHostPort(all[1].Addr)
	do(0, "cluster", "meet", host, port, bus)
	if !poll(func() bool {
		return strings.Contains(do(0, "cluster", "info"), "cluster_state:ok") && strings.Contains(do(1, "cluster", "info"), "cluster_state:ok")
	}) {
		t.Fatal("the cluster does not come up")
	}
	return all[0].Addr
}

// TestHandedOver: a lease that its last holder has handed over is good for a second
// until it is renewed, which is too little to stop a command in order. The command
// does not begin before that, and is not stopped.
func TestHandedOver(t *testing.T) {
	w := newWorld(t)
	addr := startRedis(t)
	store := w.blessed("redis://" + addr)
	link := drivertest.NewLink(t, addr)
	holder := w.holds("-s", store, "deploy")
	next := w.pawl("run", "-s", "redis://"+link.Addr(), "--grace", "5s", "--events", "fd:2", "deploy", "--", "sh", "-c", "sleep 0.2; touch $W/done")
	w.until("the next one waits", func() bool {
		show := w.pawl("show", "-s", store, "--json", "deploy")
		<-show.done
		return strings.Contains(show.stdout(), `"waiters": [`) && strings.Contains(show.stdout(), `"since"`)
	})
	link.Set(drivertest.Delayed) // so that the renewal takes its time
	w.free(holder)
	next.end(0)
	if !w.exists("done") || strings.Contains(next.stderr(), "suspect") {
		t.Errorf("done: %v; events %s", w.exists("done"), next.stderr())
	}
}

// TestNoRedis: a store that cannot be used is told in one line without password.
func TestNoRedis(t *testing.T) {
	w := newWorld(t)
	addr := startRedis(t, "--requirepass", "s3cret")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	open := startRedis(t)
	w.refuses([]refusal{
		{"redis://:s3cret@" + silent.Addr().String(), silent.Addr().String() + " does not answer within 2s", exit.Unavailable},
		{"redis://:wrong-s3cret@" + addr, "refuses this user or password", exit.Denied},
		{"redis://" + addr, "redis://:PASSWORD@host", exit.Denied},
		{"redis://" + open + "/99", "CONFIG GET databases", exit.Config},
		{"redlock://:wrong-s3cret@" + addr + "?allow_single=true", "refuses this user or password", exit.Denied},
		{"redis://:s3cret@127.0.0.1:1", "is the server running", exit.Unavailable},
		{"redis://:s3cret@" + addr + "?nonsense=1", "nonsense", exit.Config},
	}, "run --connect-timeout 2s -n deploy true", "ls --connect-timeout 2s", "show --connect-timeout 2s deploy", "bless --connect-timeout 2s --yes")
}

// TestNewRedis: a client of a server that grants nothing yet is told for how long,
// in one line, and that can be ended by saying that nobody holds a lock.
func TestNewRedis(t *testing.T) {
	w := newWorld(t)
	store := "redis://" + startRedis(t) + "?max_ttl=90m"
	run := func(words ...string) *proc { return w.pawl(append([]string{"run", "-s", store}, words...)...) }
	const told = "the server has just started or lost its data, and grants nothing for "
	once := func(p *proc, before string) {
		t.Helper()
		lines := strings.SplitAfter(p.stderr(), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], before+told) || !strings.Contains(lines[0], "1h") || !strings.Contains(lines[0], "pawl bless") {
			t.Errorf("stderr is %q; want one line: %s", p.stderr(), before+told)
		}
	}
	busy := run("-n", "deploy", "true")
	busy.end(exit.Unavailable)
	once(busy, `pawl: unavailable: "deploy": `)
	list := w.pawl("ls", "-s", store)
	list.end(0)
	if got := list.stderr(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "pawl: the store grants nothing for ") {
		t.Errorf("ls says %q; want one line", got)
	}
	doctor := w.pawl("doctor", "-s", store)
	doctor.end(2)
	if got := doctor.stderr(); got != "" {
		t.Errorf("doctor says %q beside its findings", got)
	}
	busy = run("-q", "--wait", "1500ms", "deploy", "true")
	busy.end(exit.Unavailable)
	once(busy, `pawl: unavailable: "deploy": not free after 1.5s; `)
	quiet := run("-q", "deploy", "true")
	waits := run("deploy", "sh", "-c", holdUntil)
	w.until("the waiter is told", func() bool { return waits.stderr() != "" })
	once(waits, `pawl: waiting for "deploy": `)

	w.pawl("bless", "-s", store).end(exit.Misuse)
	if waits.ended() || quiet.ended() {
		t.Fatal("a server that was not blessed grants")
	}
	bless := w.pawl("bless", "-s", store, "--yes")
	bless.end(0)
	bless.prints("grants leases from now on")
	w.appears("in")
	w.free(waits)
	quiet.end(0)
	once(waits, `pawl: waiting for "deploy": `)
	if got := quiet.stderr(); got != "" {
		t.Errorf("with -q stderr is %q", got)
	}
	run("-n", "deploy", "true").end(0)

	file := w.pawl("bless", "--yes")
	file.end(exit.Config, "forgets no leases")
}

// TestEfficiency: a server that has just started lets nobody wait, and the command
// gets no token, not even that of a run around it.
func TestEfficiency(t *testing.T) {
	w := newWorld(t)
	store := "redis://" + startRedis(t) + "?mode=efficiency"
	run := w.pawl("run", "-s", store, "deploy", "--", "sh", "-c", `echo "$PAWL_LEASE_STORE ${PAWL_TOKEN-none}"`)
	run.end(0)
	if got := run.stdout(); got != store+" none\n" {
		t.Errorf("the command says %q; want the store and no token", got)
	}
	bless := w.pawl("bless", "-s", store, "--yes")
	bless.end(exit.Config, "leave out ?mode=")
	wrong := w.pawl("run", "-s", store+"x", "deploy", "true")
	wrong.end(exit.Config, `there is no mode "efficiencyx": write mode=efficiency`)
}
