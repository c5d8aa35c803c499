// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestRenewTogether: of leases that are renewed in one call, each gets the answer that is its
// own. One whose row somebody has is renewed by itself, and keeps nobody waiting.
func TestRenewTogether(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	one := func(what string, req *driver.Request, ttl time.Duration) *renewal {
		t.Helper()
		req.Name = "together/" + what
		g, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return &renewal{g: g.(*grant), ttl: ttl, done: make(chan struct{})}
	}
	exclusive, reader, slot := request("", time.Minute), request("", time.Minute), request("", time.Minute)
	reader.Shared, slot.Slots = true, 2
	all := []*renewal{
		one("exclusive", exclusive, time.Minute), one("reader", reader, time.Minute), one("slot", slot, time.Minute),
		one("too long", request("", time.Minute), 2*time.Hour),
		one("downgraded", request("", time.Minute), time.Minute),
		one("released", request("", time.Minute), time.Minute), one("blocked", request("", time.Minute), time.Minute),
	}
	shared := request("together/downgraded", time.Minute)
	shared.Shared = true
	if _, err := all[4].g.Downgrade(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	if err := all[5].g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx := blocker(t, "together/blocked")
	d.renewAll(all)
	for i, want := range []int{1, 1, 1, tooLong, notAtOnce, notAtOnce, notAtOnce} {
		r := all[i]
		<-r.done
		if got := notAtOnce; r.row != nil {
			if got = integer(r.row[0]); got != want {
				t.Errorf("%s: %d; want %d", r.g.name, got, want)
			}
		} else if got != want || r.fail != nil {
			t.Errorf("%s: no answer, %v; want %d", r.g.name, r.fail, want)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range all {
		calls.Go(func() {
			over := i == 4 || i == 5
			if _, err := all[i].g.Renew(t.Context(), time.Minute); errors.Is(err, driver.ErrReleased) != over || !over && err != nil {
				t.Errorf("%s: Renew = %v", all[i].g.name, err)
			}
			if err := all[i].g.Release(t.Context()); err != nil {
				t.Errorf("%s: Release = %v", all[i].g.name, err)
			}
		})
	}
	calls.Wait()
}

// TestRenewTogetherEnds: a call for several renewals ends when the last of their callers has
// gone: the connection, which may be dead, is free then.
func TestRenewTogetherEnds(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "together ends"})
	tx := tableLock(t, "together ends")
	defer tx.Rollback(t.Context())
	var all []*renewal
	for _, name := range []string{"a", "b"} {
		g := &grant{s: d, name: name, lease: name}
		all = append(all, &renewal{g: g, ttl: time.Minute, ends: time.Now().Add(500 * time.Millisecond), done: make(chan struct{})})
	}
	began := time.Now()
	d.renewAll(all)
	if took := time.Since(began); took > requestTimeout-time.Second {
		t.Errorf("the call took %v", took)
	}
	for _, r := range all {
		if <-r.done; r.fail == nil {
			t.Error("there is an answer")
		}
	}
}

// TestGather: a renewal that comes alone is sent at once, and those that come soon after it
// go together, once.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q renewals
		sent := make(chan int, 10)
		send := func(all []*renewal) { sent <- len(all) }
		if q.add(&renewal{}, send) {
			t.Error("the first one waits")
		}
		const more = 3
		for i := range maxRenewals + more {
			if !q.add(&renewal{}, send) {
				t.Errorf("number %d is sent by itself", i)
			}
		}
		synctest.Wait()
		if n := len(sent); n != 1 || <-sent != maxRenewals {
			t.Fatalf("%d calls at once; want one, of %d renewals", n, maxRenewals)
		}
		time.Sleep(gather)
		synctest.Wait()
		got := 0
		for len(sent) > 0 {
			got += <-sent
		}
		if got != more {
			t.Errorf("%d renewals after %v; want %d", got, gather, more)
		}
	})
}
