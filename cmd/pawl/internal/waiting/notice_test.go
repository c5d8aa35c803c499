// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func TestNotice(t *testing.T) {
	held := &pawl.Info{Holders: make([]pawl.Held, 1)}
	held.Holders[0].User, held.Holders[0].Host, held.Holders[0].PID = "alice", "ci-7", 812
	for _, c := range []struct {
		n    Notice
		want string
	}{
		{Notice{Info: nil, Ahead: -1}, `pawl: waiting for "x"`},
		{Notice{Info: held, Ahead: 2}, `pawl: waiting for "x": held by alice@ci-7 (pid 812); 2 ahead of you`},
		{Notice{Info: held, Ahead: -1}, `pawl: waiting for "x": held by alice@ci-7 (pid 812)`},
		{Notice{Info: &pawl.Info{}, Ahead: 0}, `pawl: waiting for "x"; you are next`},
		{Notice{Info: &pawl.Info{}, Ahead: 0, Quarantine: 28100 * time.Millisecond}, `pawl: waiting for "x": the server has just started or lost its data, ` +
			`and grants nothing for another 29s (see pawl bless --help)`},
		{Notice{Ahead: -1, Failed: context.DeadlineExceeded, Away: 11200 * time.Millisecond}, `pawl: waiting for "x": redis://h does not answer; silent for 12s`},
		{Notice{Ahead: -1, Failed: &pawl.Error{Op: "inspect", Name: "x", Err: fmt.Errorf("%w: connection refused", pawl.ErrUnavailable)}, Away: time.Second},
			`pawl: waiting for "x": redis://h does not answer; silent for 1s (connection refused)`},
		{Notice{Info: held, Ahead: 0, Back: 3 * time.Second}, `pawl: waiting for "x": redis://h answers again, after 3s: held by alice@ci-7 (pid 812); you are next`},
	} {
		if got := c.n.Line("x", &url.URL{Scheme: "redis", Host: "h"}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNoticeOfOwnLease(t *testing.T) {
	host, _ := os.Hostname()
	own := Notice{Info: &pawl.Info{Holders: []pawl.Held{{Holder: pawl.Holder{PID: os.Getpid(), Host: host, Space: driver.PIDSpace()}}}}}
	other := Notice{Info: &pawl.Info{Holders: []pawl.Held{{Holder: pawl.Holder{PID: os.Getpid(), Host: host + "2", Space: driver.PIDSpace()}}}}}
	if !own.Mine(os.Getpid()) || other.Mine(os.Getpid()) || (Notice{}).Mine(os.Getpid()) {
		t.Errorf("mine: own %v, other %v, unknown %v", own.Mine(os.Getpid()), other.Mine(os.Getpid()), Notice{}.Mine(os.Getpid()))
	}
}

// TestSilenceIsToldOnce: a look that finds a silent store and the client's news of that come
// at about the same time.
func TestSilenceIsToldOnce(t *testing.T) {
	now := time.Now()
	o := Outage{Servers: true}
	look := func(after time.Duration, tell bool) bool {
		return o.Told(&Notice{Failed: context.DeadlineExceeded, Began: now, Tell: tell}, now.Add(after))
	}
	if !look(2*time.Second, false) || look(2100*time.Millisecond, true) || look(3*time.Second, false) {
		t.Error("want it told at first, and not again at once")
	}
	if !look(10*time.Second, false) {
		t.Error("want it told again after a while")
	}
}
