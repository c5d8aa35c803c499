// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// diagnosis runs the doctor, and returns the findings that are not fine, as check: text. A machine
// that stands still for a second makes round trips slow: then it is run once more.
func (w *world) diagnosis(store string, code int) (bad []string) {
	w.Helper()
	var p *proc
	w.until("round trips are not slow", func() bool {
		p = w.pawl("doctor", "-s", store, "--json")
		<-p.done
		return !strings.Contains(p.stdout(), "or see what makes the network or the server slow")
	})
	defer func() {
		if w.Failed() {
			w.Logf("the doctor says %s", p.stdout())
		}
	}()
	p.end(code)
	var out doctorJSON
	if err := json.Unmarshal([]byte(p.stdout()), &out); err != nil {
		w.Fatalf("%v: %s", err, p.stdout())
	}
	if strings.Contains(p.stdout(), "s3cret") {
		w.Errorf("it tells the password: %s", p.stdout())
	}
	for _, f := range out.Findings {
		if f.Level != "fine" {
			bad = append(bad, f.Check+": "+f.Text)
		}
		if (f.Level == "fine") == (f.Do != "") {
			w.Errorf("%+v: what to do?", f)
		}
	}
	return bad
}

// wants checks that there is one bad finding, with these words.
func (w *world) wants(bad []string, words string) {
	w.Helper()
	if len(bad) != 1 || !strings.Contains(bad[0], words) {
		w.Errorf("not fine is %q, want one with %q", bad, words)
	}
}

// The doctor says what is wrong with a Redis server, and nothing else.
func TestDoctorOnRedis(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t, "--requirepass", "s3cret")
	store := "redis://:s3cret@" + s.Addr
	w.wants(w.diagnosis(store+"?max_ttl=90m", 2), "quarantine: the store grants nothing for 1h")
	w.pawl("bless", "-s", store+"?max_ttl=90m", "--yes").end(0)
	if bad := w.diagnosis(store+"?max_ttl=90m", 0); len(bad) > 0 {
		t.Errorf("it is well, but for %q", bad)
	}
	w.wants(w.diagnosis("redis://:wrong@"+s.Addr, 2), "reachable: ")
	s.Stop()
	defer s.Cont()
	w.wants(w.diagnosis(store, 2), "reachable: ")
}

// What would make locks unsafe or unavailable is named before it does.
func TestDoctorOnRedisInDanger(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	store := "redis://" + s.Addr + "?assume_new=true"
	w.wants(w.diagnosis(store, 2), "throw")
	w.wants(w.diagnosis(store+"&allow_unguarded=true", 2), "eviction: when it is short of memory it throws locks away (maxmemory-policy allkeys-lru)")

	master := servers.StartRedis(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := servers.StartRedis(t, "--replicaof", host+" "+port)
	w.until("the replica is there", func() bool {
		info, err := master.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "state=online")
	})
	store = "redis://" + master.Addr + "?assume_new=true"
	w.wants(w.diagnosis(store, 1), "role: a master (replicas: 1) that goes on when it is cut off")
	w.wants(w.diagnosis("redis://"+replica.Addr, 2), "reachable: ")
	if _, err := master.Do("CONFIG", "SET", "min-replicas-to-write", "1"); err != nil {
		t.Fatal(err)
	}
	if bad := w.diagnosis(store, 0); len(bad) > 0 {
		t.Errorf("it is well, but for %q", bad)
	}
	replica.Kill()
	w.until("the master stops", func() bool {
		info, err := master.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "min_slaves_good_slaves:0")
	})
	bad := w.diagnosis(store, 2)
	if !strings.Contains(strings.Join(bad, "\n"), "role: a master that refuses to write") {
		t.Errorf("not fine is %q", bad)
	}
}

// A server that has no memory left grants nothing, whatever it says of itself.
func TestDoctorOnAFullRedis(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t, "--maxmemory", "100mb")
	store := "redis://" + s.Addr + "?assume_new=true"
	if bad := w.diagnosis(store, 0); len(bad) > 0 {
		t.Errorf("it is well, but for %q", bad)
	}
	if _, err := s.Do("CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	if bad := strings.Join(w.diagnosis(store, 2), "\n"); !strings.Contains(bad, "grant: the store grants nothing: ") || !strings.Contains(bad, "maxmemory") {
		t.Errorf("not fine is %q; want that nothing is granted, and maxmemory", bad)
	}
}

// A node that is down is a warning as long as others are enough.
func TestDoctorOnRedlock(t *testing.T) {
	w := newWorld(t)
	var all []*servers.Redis
	var addrs []string
	for range 3 {
		s := servers.StartRedis(t)
		all, addrs = append(all, s), append(addrs, s.Addr)
	}
	store := "redlock://" + strings.Join(addrs, ",") + "?assume_new=true"
	if bad := w.diagnosis(store, 0); len(bad) > 0 {
		t.Errorf("it is well, but for %q", bad)
	}
	all[0].Kill()
	bad := w.diagnosis(store, 1)
	if len(bad) != 2 || !strings.Contains(bad[0], "node: it is down") || !strings.Contains(bad[1], "quorum: 2 of 3 nodes grant leases, and 2 are enough: not one more may fail") {
		t.Errorf("not fine is %q", bad)
	}
	// One that hangs, and one that wants a password: with any number of nodes down they are named, with the right advice.
	all[1].Stop()
	if out, err := all[2].Do("config", "set", "requirepass", "s3cret"); err != nil || out != "OK" {
		t.Fatal(out, err)
	}
	found := strings.Join(w.diagnosis(store, 2), "\n")
	for _, want := range []string{"reachable: ", "node: it is down", "node: it does not answer", "node: it answers, but counts as down: ", "the server wants a password", "quorum: 0 of 3 nodes grant leases"} {
		if !strings.Contains(found, want) {
			t.Errorf("doctor finds\n%s\nwant %q", found, want)
		}
	}
	p := w.pawl("nodes", "-s", store, "--connect-timeout", "2s")
	p.end(0)
	for _, want := range []string{addrs[0], addrs[1] + " ", "no answer in time", "the server wants a password"} {
		if !strings.Contains(p.stdout(), want) {
			t.Errorf("the nodes are\n%s; want %q", p.stdout(), want)
		}
	}
}

// The doctor tries no grant in a store that nobody has used: that would set the longest TTL for all
// programs that come later, and end a quarantine early that they need.
func TestDoctorLeavesANewStoreAlone(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t)
	store := "redis://" + s.Addr + "?max_ttl=1s"
	var said string
	w.until("the server has been up for the longest TTL", func() bool {
		p := w.pawl("doctor", "-s", store, "--json")
		<-p.done
		said = p.stdout()
		return strings.Contains(said, "no restart keeps the store")
	})
	keys, err := s.Do("DBSIZE")
	if err != nil || keys != "0" || !strings.Contains(said, "so no grant was tried") {
		t.Errorf("the doctor has left %s keys (%v), and says %s", keys, err, said)
	}
}
