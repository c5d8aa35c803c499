// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

const (
	candidates = 5
	electTTL   = 5 * time.Second
)

// electTime is for how long leaders are killed: $PAWL_ELECT, or 20 s.
func electTime(t *testing.T) (d time.Duration, full bool) {
	s := os.Getenv("PAWL_ELECT")
	if s == "" {
		return 20 * time.Second, false
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("PAWL_ELECT: %v", err)
	}
	return d, true
}

// electStores are stores for elections. On files a process that is stopped keeps
// its lock, and one that is killed does not.
var electStores = []struct {
	name  string
	url   func(*world) string
	stops bool
	gone  time.Duration // after this the store lets another in, when a leader was killed
}{
	{"file", func(w *world) string { return "file://" + w.dir + "/elect" }, false, 0},
	{"redis", func(w *world) string { return w.blessed("redis://" + startRedis(w.T)) }, true, electTTL},
}

func (w *world) blessed(store string) string {
	w.pawl("bless", "-s", store, "--yes", "--connect-timeout", ample.String()).end(0)
	return store
}

// leading is what candidates run. A leader that runs beside another, or whose token is not greater than all before,
// writes that to the file "wrong".
const leading = `exec 9>>leader
flock -n 9 || echo "$0 leads beside another" >>wrong
last=$(sed -n '$s/.* //p' terms)
test $PAWL_TOKEN -gt ${last:-0} || echo "$0 leads with token $PAWL_TOKEN after $last" >>wrong
echo $0 $PAWL_TOKEN >>terms
exec sleep 1000`

// TestElectCommand has five processes stand for election. Every few seconds the leader is killed or
// stopped for longer than its TTL. What pawl runs is dead before another runs, tokens grow, and
// soon there is another leader.
func TestElectCommand(t *testing.T) {
	t.Parallel()
	for _, s := range electStores {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			url := s.url(w)
			w.create("terms")
			w.election(s.stops, s.gone, func(id string) *proc {
				return w.pawl("elect", "boss", "-q", "-s", url, "--ttl", electTTL.String(), "--grace", "200ms", "--", "sh", "-c", leading, id)
			})
		})
	}
}

// election lets processes that start makes lead and fall. They are known by their id.
func (w *world) election(stops bool, gone time.Duration, start func(id string) *proc) {
	w.Helper()
	living := make(map[string]*proc)
	end := func() {
		for id, p := range living {
			_ = p.Process.Signal(syscall.SIGCONT)
			_ = p.Process.Kill()
			<-p.done
			delete(living, id)
		}
	}
	w.Cleanup(end)
	started := 0
	stand := func() {
		started++
		id := fmt.Sprint("p", started)
		living[id] = start(id)
	}
	for range candidates {
		stand()
	}
	d, full := electTime(w.T)
	terms, kills, pauses, longest := 0, 0, 0, time.Duration(0)
	for over, fell := time.Now().Add(d), time.Now(); ; {
		var leader string
		w.until("somebody leads", func() bool {
			for id, p := range living {
				if p.ended() {
					w.Fatalf("%s does not stand for election any more: %v; stderr %q", id, p.err, p.stderr())
				}
			}
			all := strings.SplitAfter(w.read("terms"), "\n")
			all = all[:len(all)-1] // what is behind the last line break
			if len(all) > terms {
				terms = len(all)
				leader, _, _ = strings.Cut(all[terms-1], " ")
			}
			return living[leader] != nil
		})
		if kills+pauses > 0 {
			longest = max(longest, time.Since(fell))
		}
		if time.Now().After(over) {
			break
		}
		time.Sleep(time.Second + rand.N(time.Second))
		p := living[leader]
		fell = time.Now()
		if stops && rand.IntN(3) == 0 {
			pauses++
			p.signal(syscall.SIGSTOP)
			time.AfterFunc(electTTL+rand.N(electTTL), func() { _ = p.Process.Signal(syscall.SIGCONT) })
			continue
		}
		kills++
		p.signal(syscall.SIGKILL)
		<-p.done
		delete(living, leader)
		stand()
	}
	end()
	w.noneLeft() // what they ran has ended too
	if wrong := w.read("wrong"); wrong != "" {
		w.Error(wrong)
	}
	w.Logf("%d killed and %d stopped, %d terms; nobody led for %v at most", kills, pauses, terms, longest)
	if limit := gone + time.Second; full && longest > limit { // else the machine may be busy
		w.Errorf("nobody led for %v; want %v at most", longest, limit)
	}
}

// TestCandidateAndSignals: a candidate that has led before is not ended by what it would
// have passed on to its command, such as the news that its terminal has another
// size. What ends a process ends it.
func TestCandidateAndSignals(t *testing.T) {
	w := newWorld(t)
	elect := func(name string) *proc {
		return w.pawl("elect", "boss", "--who", name, "--", "sh", "-c",
			"touch $W/"+name+"-$PAWL_TOKEN; while ! test -e $W/out-"+name+"; do sleep 0.02; done")
	}
	led := func(name string) func() bool {
		return func() bool {
			names, _ := filepath.Glob(filepath.Join(w.dir, name+"-*"))
			return len(names) > 0
		}
	}
	waits := func(name string) func() bool {
		return func() bool {
			show := w.pawl("show", "boss")
			<-show.done
			_, waiters, _ := strings.Cut(show.stdout(), "waiting")
			return strings.Contains(waiters, name)
		}
	}
	one := elect("one")
	w.until("one leads", led("one"))
	two := elect("two")
	w.until("two waits", waits("two"))
	w.pawl("break", "boss", "--force", "--why", "a test").end(0)
	w.until("two leads", led("two"))
	w.until("one waits", waits("one"))
	for _, s := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGCONT} {
		one.signal(s)
		time.Sleep(20 * time.Millisecond)
	}
	w.create("out-two")
	two.end(0)
	w.until("one leads again", func() bool {
		names, _ := filepath.Glob(filepath.Join(w.dir, "one-*"))
		return len(names) == 2 || one.ended()
	})
	if one.ended() {
		t.Fatalf("the candidate has ended: %v, stderr %q", one.err, one.stderr())
	}
	one.signal(syscall.SIGTERM)
	<-one.done
	if code := exitCode(one.err); code != "143" && code != "-15" {
		t.Errorf("exit code %s; want that of SIGTERM", code)
	}
}

// TestCandidateAndOutage: a candidate that waits, and has not led yet, goes on after an
// outage of the store that is longer than the TTL, where the store has no queue in which
// it would wait.
func TestCandidateAndOutage(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t)
	ask := func(command string) {
		t.Helper()
		if reply, err := s.Do(strings.Fields(command)...); err != nil {
			t.Fatalf("%s: %q, %v", command, reply, err)
		}
	}
	ask("SET pawl:{boss} somebody-else")
	p := w.pawl("elect", "boss", "-s", "redis://"+s.Addr+"?mode=efficiency", "--ttl", "1s", "--", "touch", filepath.Join(w.dir, "led"))
	w.until("it waits", func() bool { return p.ended() || strings.Contains(p.stderr(), "waiting") })
	ask("CLIENT PAUSE 10000 ALL")
	w.until("it hears of the outage", func() bool { return p.ended() || strings.Contains(p.stderr(), "waiting to lead again") })
	if p.ended() {
		t.Fatalf("the candidate has ended: %v, stderr %q", p.err, p.stderr())
	}
	ask("DEL pawl:{boss}") // answered after the pause
	p.end(0)
	if !w.exists("led") {
		t.Error("it has not led")
	}
}
