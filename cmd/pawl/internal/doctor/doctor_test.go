// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

func TestTripFinding(t *testing.T) {
	for _, c := range []struct {
		slowest time.Duration
		expiry  bool
		level   driver.Level
		want    string
	}{
		{300 * time.Microsecond, true, driver.Fine, "a --ttl of 1s or more"},
		{90 * time.Millisecond, true, driver.Fine, "a --ttl of 3s or more"},
		{time.Second, true, driver.Fine, "a --ttl of 30s or more"},
		{1100 * time.Millisecond, true, driver.Warning, "a --ttl of 33s or more"},
		{1100 * time.Millisecond, false, driver.Fine, "the slowest took 1.1s"},
		{6984200 * time.Nanosecond, false, driver.Fine, "the slowest took 6.98ms"},
	} {
		f := tripFinding(200*time.Microsecond, c.slowest, c.expiry)
		if f.Level != c.level || !strings.Contains(f.Text, c.want) || (f.Do == "") != (c.level == driver.Fine) {
			t.Errorf("slowest %v: %+v, want %v %q", c.slowest, f, c.level, c.want)
		}
	}
}

func TestLimitFinding(t *testing.T) {
	state := &report.State{MaxTTL: "1s"}
	if f := limitFinding(state, time.Second, time.Second/6); f.Level != driver.Fine {
		t.Errorf("%+v", f)
	}
	if f := limitFinding(state, time.Second, 200*time.Millisecond); f.Level != driver.Warning || f.Do != "raise it: pawl max-ttl 2s" {
		t.Errorf("a TTL of five round trips: %+v", f)
	}
}

func TestStuck(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	held := func(h pawl.Held) *pawl.Info { return &pawl.Info{Name: "x", Holders: []pawl.Held{h}} }
	const nobody = 1 << 22 // more than the kernel gives a process
	for _, c := range []struct {
		name string
		info *pawl.Info
		want string // the checks that warn
	}{
		{"held", held(pawl.Held{Acquired: time.Now().Add(-time.Minute)}), ""},
		{"held for long", held(pawl.Held{Acquired: time.Now().Add(-time.Hour)}), "held long"},
		{"since when is not known", held(pawl.Held{}), ""},
		{"an orphan", held(pawl.Held{Orphan: true, Acquired: time.Now().Add(-time.Hour)}), "orphan"},
		{"of ours", held(pawl.Held{Holder: pawl.Holder{Host: host, PID: os.Getpid()}}), ""},
		{"of one that has gone", held(pawl.Held{Holder: pawl.Holder{Host: host, PID: nobody, Space: driver.PIDSpace()}}), "holder"},
		{"of a script whose first step has ended", held(pawl.Held{Holder: pawl.Holder{Host: host, PID: nobody, Space: driver.PIDSpace(), Command: waiting.AcquireCommand}}), ""},
		{"of one elsewhere", held(pawl.Held{Holder: pawl.Holder{Host: "x" + host, PID: nobody}}), ""},
		{"nobody's", &pawl.Info{Name: "x", Waiters: []pawl.Waiter{{}}}, "queue"},
		{"with a queue", &pawl.Info{Name: "x", Holders: []pawl.Held{{}}, Waiters: []pawl.Waiter{{}}}, ""},
		{"with a dead waiter", &pawl.Info{Name: "x", Holders: []pawl.Held{{}}, Waiters: []pawl.Waiter{{}, {Holder: pawl.Holder{Host: host, PID: nobody, Space: driver.PIDSpace()}}}}, "queue"},
	} {
		d := &doctor{store: &stores.Store{Flag: " -s file:///x"}, long: time.Hour}
		var checks []string
		for _, f := range d.stuck(c.info) {
			checks = append(checks, f.Check)
			if f.Level != driver.Warning || !strings.Contains(f.Do, " x -s file:///x") || !strings.HasPrefix(f.Text, `"x" `) {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
		if got := strings.Join(checks, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	d := &doctor{store: &stores.Store{}, long: time.Hour, out: doctorJSON{State: &report.State{Closed: "3s"}}}
	if found := d.stuck(&pawl.Info{Name: "x", Waiters: []pawl.Waiter{{}}}); len(found) > 0 {
		t.Errorf("in quarantine a queue waits for good reason: %+v", found)
	}
}

// On a terminal of 80 columns no line wraps, and what to do stands below what there is.
func TestDoctorDescribes(t *testing.T) {
	d := &doctor{out: doctorJSON{Store: "redis://h"}}
	d.tell(driver.Finding{Check: "server", Server: "h:6379", Text: "Redis 7.2.4"})
	d.tell(driver.Finding{Check: "eviction", Server: "h:6379", Level: driver.Problem, Text: strings.Repeat("it throws locks away ", 8) + "\x1b[2J", Do: strings.Repeat("set noeviction ", 10)})
	d.tell(driver.Finding{Check: "clock", Level: driver.Warning, Text: "late", Do: "wait"})
	var b strings.Builder
	if err := d.describe(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for line := range strings.Lines(got) {
		if n := len([]rune(line)) - 1; n > 80 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
	for _, want := range []string{"redis://h\nok       h:6379: Redis 7.2.4\nPROBLEM  h:6379: it throws", "\n         -> set noeviction", "\n            ", "WARNING  late\n         -> wait\n1 problem, 1 warning\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("it controls the terminal: %q", got)
	}
}

// TestChangesHands: a lock whose leases follow each other is named, and none that is held.
func TestChangesHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := memlock.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Acquire(t.Context(), "steady"); err != nil {
			t.Fatal(err)
		}
		var leads sync.WaitGroup
		leads.Go(func() {
			for range 20 {
				_ = c.Do(t.Context(), "leader", func(context.Context, *pawl.Lease) error { time.Sleep(370 * time.Millisecond); return nil })
			}
		})
		defer leads.Wait()
		synctest.Wait()
		infos, err := c.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		d := &doctor{store: &stores.Store{Client: c}}
		d.changing(t.Context(), infos)
		const want = `"leader" changes hands often: 5 leases in 5 looks; if it is a leader or a long job, see: pawl watch leader`
		if all := d.out.Findings; len(all) != 1 || all[0].Lock != "leader" || all[0].Level != "fine" || all[0].Text != want {
			t.Errorf("found %+v", all)
		}
	})
}
