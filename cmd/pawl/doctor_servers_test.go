// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// diagnosis is what doctor prints.
type diagnosis struct {
	Findings []struct{ Check, Level, Text, Do string }
}

// diagnosis runs the doctor until it exits with code and finds nothing bad but wants, in that order,
// or far too long: on a busy machine a server answers too late now and then. A want is what a finding
// contains, in parts with ... between them.
func (w *world) diagnosis(store string, code int, wants ...string) {
	w.Helper()
	var p *proc
	var bad []string
	if !poll(func() bool {
		p = w.pawl("doctor", "-s", store, "--json", "--connect-timeout", "5s")
		<-p.done
		bad = w.bad(p.stdout())
		return exitCode(p.err) == strconv.Itoa(code) && slices.EqualFunc(bad, wants, contains)
	}) {
		w.Errorf("doctor -s %s: exit %s, it finds\n%s\nWant exit %s and\n%s\nIt says %s",
			store, exitCode(p.err), strings.Join(bad, "\n"), strconv.Itoa(code), strings.Join(wants, "\n"), p.stdout())
	}
}

func contains(text, parts string) bool {
	for part := range strings.SplitSeq(parts, "...") {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// bad returns the findings of the doctor that are not fine, as check: text.
func (w *world) bad(stdout string) (bad []string) {
	w.Helper()
	var out diagnosis
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		w.Fatalf("%v: %s", err, stdout)
	}
	if strings.Contains(stdout, "s3cret") {
		w.Errorf("it tells the password: %s", stdout)
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

// The doctor says what is wrong with a Redis server, and nothing else.
func TestDoctorOnRedis(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t, "--requirepass", "s3cret")
	store := "redis://:s3cret@" + s.Addr
	w.diagnosis(store+"?max_ttl=90m", 2, "quarantine: the store grants nothing for 1h")
	w.pawl("bless", "-s", store+"?max_ttl=90m", "--yes").end(0)
	w.diagnosis(store+"?max_ttl=90m", 0)
	w.diagnosis("redis://:wrong@"+s.Addr, 2, "reachable: ")
	p := w.pawl("doctor", "-s", "redis://:wrong@"+s.Addr)
	p.end(2)
	p.prints("-> see whether there is such a user: redis-cli ACL GETUSER")
	s.Stop()
	defer s.Cont()
	w.diagnosis(store, 2, "reachable: ")
}

// What would make locks unsafe or unavailable is named before it does.
func TestDoctorOnRedisInDanger(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	store := "redis://" + s.Addr + "?assume_new=true"
	w.diagnosis(store, 2, "throw")
	w.diagnosis(store+"&allow_unguarded=true", 2, "eviction: when it is short of memory it throws locks away (maxmemory-policy allkeys-lru)")
	for _, to := range [][]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}} {
		if _, err := s.Do("CONFIG", "SET", to[0], to[1]); err != nil {
			t.Fatal(err)
		}
	}
	w.diagnosis(store, 2, "eviction: ...of its memory is in use", "grant: the store grants nothing: ...maxmemory")

	master := servers.StartRedis(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := servers.StartRedis(t, "--replicaof", host+" "+port)
	w.until("the replica is there", func() bool {
		info, err := master.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "state=online")
	})
	w.asInOperations(master.Addr)
	store = "redis://" + master.Addr + "?assume_new=true"
	w.diagnosis(store, 1, "role: a master (replicas: 1) that goes on when it is cut off")
	w.diagnosis("redis://"+replica.Addr, 2, "reachable: ")
	if _, err := master.Do("CONFIG", "SET", "min-replicas-to-write", "1"); err != nil {
		t.Fatal(err)
	}
	w.diagnosis(store, 0)
	replica.Kill()
	w.until("the master stops", func() bool {
		info, err := master.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "min_slaves_good_slaves:0")
	})
	w.diagnosis(store, 2, "role: a master that refuses to write", "grant: the store grants nothing: ")
}

// asInOperations checks that the doctor prints what docs/operations.md shows, of a master with a replica that has
// just started. Numbers and line breaks may differ.
func (w *world) asInOperations(addr string) {
	w.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		w.Fatal(err)
	}
	_, want, _ := strings.Cut(string(page), "    $ pawl doctor --store redis://localhost\n")
	want, _, _ = strings.Cut(want, "\n\n")
	const longest = "?max_ttl=90m" // so that the quarantine lasts
	p := w.pawl("doctor", "-s", "redis://"+addr+longest)
	p.end(2)
	words := func(text string) string {
		text = strings.NewReplacer(addr, "localhost", longest, "").Replace(text)
		return regexp.MustCompile(`\d[\d.:hms]*`).ReplaceAllString(strings.Join(strings.Fields(text), " "), "N")
	}
	if first := strings.TrimSpace(strings.SplitN(want, "...", 2)[0]); first == "" || !contains(words(p.stdout()), words(want)) {
		w.Errorf("doctor prints\n%s\nthe page says\n%s", p.stdout(), want)
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
	w.diagnosis(store, 0)
	all[0].Kill()
	w.diagnosis(store, 1, "node: it is down", "quorum: 2 of 3 nodes grant leases, and 2 are enough: not one more may fail")
	// One that hangs, and one that wants a password: with any number of nodes down they are named, with the right advice.
	all[1].Stop()
	if out, err := all[2].Do("config", "set", "requirepass", "s3cret"); err != nil || out != "OK" {
		t.Fatal(out, err)
	}
	w.diagnosis(store, 2, "reachable: ", "node: it is down", "node: it does not answer", "node: it answers, but counts as down: ...the server wants a password", "quorum: 0 of 3 nodes grant leases")
	p := w.pawl("nodes", "-s", store, "--connect-timeout", "2s")
	p.end(0)
	p.prints(addrs[0], addrs[1]+" ", "no answer in time", "the server wants a password")
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
		return strings.Contains(said, "the store is not in quarantine")
	})
	keys, err := s.Do("DBSIZE")
	if err != nil || keys != "0" || !strings.Contains(said, "so no grant was tried") {
		t.Errorf("the doctor has left %s keys (%v), and says %s", keys, err, said)
	}
}
