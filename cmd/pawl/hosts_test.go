// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock"
)

// on runs a script on a host of that name, as far as programs can see.
func (w *world) on(host, script string) *proc {
	words := []string{"--uts"}
	if os.Getuid() != 0 {
		words = append(words, "--user", "--map-root-user")
	}
	return w.start("/usr/bin/unshare", append(words, "/bin/sh", "-c", "hostname "+host+" && "+script)...)
}

// TestThreeHosts: of forty locks of three hosts one is stuck, two are in a deadlock and one flaps.
// Whoever looks at top, at doctor or at the page is told which. docs/operations.md says so.
func TestThreeHosts(t *testing.T) {
	w := newWorld(t)
	url := w.blessed("redis://" + startRedis(t))
	run := "PAWL_STORE=" + url + " $P run "
	stuck := w.on("ci-1", "exec env "+run+"ledger/close --why 'by hand' -- sh -c 'touch $W/stuck; exec sleep 600'")
	w.appears("stuck")
	held := time.Now() // or longer
	procs := []*proc{stuck, w.on("ci-2", "exec env "+run+"ledger/close true")}
	w.waitsFor(url, "ledger/close")
	began := time.Now()
	<-w.pawl("doctor", "-s", url).done
	doctored := time.Since(began)
	w.until("it is older than all others, by more than a doctor takes", func() bool { return time.Since(held) > 3*doctored })

	c, err := redislock.Open(t.Context(), url, &redislock.Options{Options: pawl.Options{Holder: pawl.Holder{User: "ci", Host: "ci-3"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 36 {
		if _, err := c.Acquire(t.Context(), fmt.Sprintf("job/%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for host, names := range map[string][2]string{"ci-1": {"stock", "invoice"}, "ci-2": {"invoice", "stock"}} {
		procs = append(procs, w.on(host, "exec env "+run+names[0]+" -- sh -c 'touch $W/has-"+names[0]+
			"; until test -e $W/has-"+names[1]+"; do sleep 0.02; done; exec env "+run+"--wait-in-deadlock "+names[1]+" true'"))
	}
	w.waitsFor(url, "stock")
	w.waitsFor(url, "invoice")
	flapping, calm := context.WithCancel(t.Context())
	defer calm()
	go func() {
		for flapping.Err() == nil {
			_ = c.Do(flapping, "leader", func(context.Context, *pawl.Lease) error {
				time.Sleep(200 * time.Millisecond)
				return nil
			})
		}
	}()

	looked := time.Now()
	s := w.inTop("", "-s "+url)
	s.draws("deadlock: ")
	s.draws("NAME KIND HELD WAIT FIRST↓ HOLDER WHY ledger/close exclusive")
	s.draws("changes hands often: leader (")
	t.Logf("top has named all three after %v", time.Since(looked))
	frame := s.frame()
	for _, want := range []string{"@ci-2) → ", "@ci-1) → ", "by hand"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q on the screen: %s", want, frame)
		}
	}
	s.typing("q")
	s.restored()
	w.until("the doctor finds all three", func() bool { // on a busy machine it skips what takes it too long
		doctor := w.pawl("doctor", "-s", url, "--json", "--long", time.Since(held).String())
		<-doctor.done
		return w.diagnosed(doctor, map[string]string{"deadlock": "waits for \"stock\"", "held long": "\"ledger/close\"", "changes hands": "\"leader\""})
	})
	w.shownByServe(url)

	for _, p := range procs {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range procs {
		<-p.done
	}
}

// waitsFor waits until somebody waits for a lock.
func (w *world) waitsFor(url, name string) {
	w.Helper()
	w.until("somebody waits for "+name, func() bool {
		p := w.pawl("show", "-s", url, name)
		<-p.done
		return strings.Contains(p.stdout(), "waiting 1")
	})
}

// diagnosed reports whether the doctor has found this. It must not find anything about the locks of jobs.
func (w *world) diagnosed(p *proc, want map[string]string) bool {
	w.Helper()
	var out diagnosis
	if err := json.Unmarshal([]byte(p.stdout()), &out); err != nil {
		w.Fatalf("%v: %s", err, p.stdout())
	}
	found := map[string]string{}
	for _, f := range out.Findings {
		found[f.Check] += f.Text
	}
	if strings.Contains(found["held long"]+found["changes hands"]+found["deadlock"], "job/") {
		w.Errorf("jobs are named: %s", p.stdout())
	}
	for check, text := range want {
		if !strings.Contains(found[check], text) {
			w.Logf("%s: %q, want %s", check, found[check], text)
			return false
		}
	}
	return true
}

// shownByServe waits until the page is told of the deadlock, and of the lock that flaps.
func (w *world) shownByServe(url string) {
	w.Helper()
	p := w.pawl("serve", "-s", url, "--listen", "127.0.0.1:0")
	w.until("it listens", func() bool { return strings.Contains(p.stdout(), "listening at ") })
	defer func() {
		p.signal(syscall.SIGTERM)
		p.end(0)
	}()
	c := http.Client{Timeout: ample}
	answer, err := c.Get(strings.TrimSpace(strings.TrimPrefix(p.stdout(), "listening at ")) + "api/events")
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		var m struct {
			Stores []struct {
				Deadlocks [][]string
				Often     map[string]int
			}
		}
		if !ok || json.Unmarshal([]byte(text), &m) != nil {
			continue
		}
		for _, s := range m.Stores {
			if len(s.Deadlocks) == 1 && len(s.Deadlocks[0]) == 2 && s.Often["leader"] > 0 {
				return
			}
		}
	}
	w.Errorf("the page is not told: %v", lines.Err())
}
