// SPDX-License-Identifier: Apache-2.0

package main

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
	held := &pawl.Info{Holders: make([]driver.Held, 1)}
	held.Holders[0].User, held.Holders[0].Host, held.Holders[0].PID = "alice", "ci-7", 812
	for _, c := range []struct {
		n    notice
		want string
	}{
		{notice{info: nil, ahead: -1}, `pawl: waiting for "x"`},
		{notice{info: held, ahead: 2}, `pawl: waiting for "x": held by alice@ci-7 (pid 812); 2 ahead of you`},
		{notice{info: held, ahead: -1}, `pawl: waiting for "x": held by alice@ci-7 (pid 812)`},
		{notice{info: &pawl.Info{}, ahead: 0}, `pawl: waiting for "x"; you are next`},
		{notice{info: &pawl.Info{}, ahead: 0, quarantine: 28100 * time.Millisecond}, `pawl: waiting for "x": the server has just started or lost its data, ` +
			`and grants nothing for 29s more (see pawl bless --help)`},
		{notice{ahead: -1, failed: context.DeadlineExceeded, away: 11200 * time.Millisecond}, `pawl: waiting for "x": redis://h does not answer, for 12s now`},
		{notice{ahead: -1, failed: &pawl.Error{Op: "inspect", Name: "x", Err: fmt.Errorf("%w: connection refused", pawl.ErrUnavailable)}, away: time.Second},
			`pawl: waiting for "x": redis://h does not answer, for 1s now (connection refused)`},
		{notice{info: held, ahead: 0, back: 3 * time.Second}, `pawl: waiting for "x": redis://h answers again, after 3s: held by alice@ci-7 (pid 812); you are next`},
	} {
		if got := c.n.line("x", &url.URL{Scheme: "redis", Host: "h"}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNoticeOfOwnLease(t *testing.T) {
	host, _ := os.Hostname()
	own := notice{info: &pawl.Info{Holders: []driver.Held{{Holder: pawl.Holder{PID: os.Getpid(), Host: host, Space: driver.PIDSpace()}}}}}
	other := notice{info: &pawl.Info{Holders: []driver.Held{{Holder: pawl.Holder{PID: os.Getpid(), Host: host + "2", Space: driver.PIDSpace()}}}}}
	if !own.mine(os.Getpid()) || other.mine(os.Getpid()) || (notice{}).mine(os.Getpid()) {
		t.Errorf("mine: own %v, other %v, unknown %v", own.mine(os.Getpid()), other.mine(os.Getpid()), notice{}.mine(os.Getpid()))
	}
}

// TestSilenceIsToldOnce: a look that finds a silent store and the client's news of that come
// at about the same time.
func TestSilenceIsToldOnce(t *testing.T) {
	now := time.Now()
	o := outage{servers: true}
	look := func(after time.Duration, tell bool) bool {
		return o.told(&notice{failed: context.DeadlineExceeded, began: now, tell: tell}, now.Add(after))
	}
	if !look(2*time.Second, false) || look(2100*time.Millisecond, true) || look(3*time.Second, false) {
		t.Error("want it told at first, and not again at once")
	}
	if !look(10*time.Second, false) {
		t.Error("want it told again after a while")
	}
}
