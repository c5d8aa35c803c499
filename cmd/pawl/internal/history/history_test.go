// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// TestQuarantine: it is a span of the whole store, and goes on while the store does not answer.
func TestQuarantine(t *testing.T) {
	h, s := New(Bytes), &Store{Name: "mem:"}
	now := time.Unix(1e9, 0)
	take := func(l Look) string {
		news, _ := h.Take(s, &l)
		told := ""
		for _, sp := range news {
			told += fmt.Sprintf("%s %s %d", sp.What, sp.State, max(sp.To-sp.From, 0))
		}
		return told
	}
	for i, c := range []struct {
		look Look
		want string
	}{
		{Look{At: now, State: report.StateOf(&pawl.StoreInfo{Closed: 20 * time.Second, Why: "it has started"})}, "quarantine closed 0"},
		{Look{At: now.Add(5 * time.Second), Err: context.DeadlineExceeded}, ""},
		{Look{At: now.Add(20 * time.Second), State: &report.State{}}, "quarantine ended 20000"},
		{Look{At: now.Add(21 * time.Second), State: &report.State{}}, ""},
	} {
		if got := take(c.look); got != c.want {
			t.Errorf("look %d: %q; want %q", i, got, c.want)
		}
	}
}

// TestWhoWas: whoever is told that a lease or a wait has ended is told whose it was, and the
// spans that are kept do not keep that.
func TestWhoWas(t *testing.T) {
	h, s := New(Bytes), &Store{Name: "mem:"}
	look := func(at int64, infos ...*pawl.Info) []*Span {
		news, _ := h.Take(s, &Look{At: time.Unix(at, 0), Infos: infos})
		return news
	}
	holder := pawl.Held{Holder: pawl.Holder{User: "alice"}, Lease: "a", Token: 1, Expires: time.Unix(30, 0)}
	waiter := pawl.Waiter{Holder: pawl.Holder{User: "bob"}, Lease: "b", Since: time.Unix(2, 0)}
	look(1, &pawl.Info{Name: "x", Holders: []pawl.Held{holder}})
	holder.Expires = time.Unix(40, 0)
	look(11, &pawl.Info{Name: "x", Holders: []pawl.Held{holder}, Waiters: []pawl.Waiter{waiter}})
	news := look(12)
	slices.SortFunc(news, func(a, b *Span) int { return int(a.ID) - int(b.ID) })
	if len(news) != 2 || news[0].Holder == nil || news[0].Holder.Lease != "a" || !news[0].Holder.Expires.Equal(holder.Expires) ||
		news[1].Waiter == nil || news[1].Waiter.Lease != "b" {
		t.Errorf("told %+v", news)
	}
	for _, sp := range h.Ended() {
		if sp.Holder != nil || sp.Waiter != nil {
			t.Errorf("kept %+v", sp)
		}
	}
	if got := s.Spans(); len(got) != 0 {
		t.Errorf("these go on: %+v", got)
	}
}

// TestNamelessWaiter: a waiter of whom nothing is known is one only if that stays so.
func TestNamelessWaiter(t *testing.T) {
	h, s := New(0), &Store{Name: "mem:"}
	nameless := pawl.Waiter{Holder: pawl.Holder{Host: "vm", PID: 7}}
	bob := pawl.Waiter{Holder: pawl.Holder{User: "bob", Host: "vm", PID: 7}, Lease: "b"}
	for i, c := range []struct {
		waiter pawl.Waiter
		want   string
	}{{nameless, ""}, {bob, "bob waiting;"}, {nameless, "bob left;"}, {nameless, " waiting;"}, {nameless, ""}} {
		news, _ := h.Take(s, &Look{At: time.Unix(int64(i), 0), Infos: []*pawl.Info{{Name: "x", Waiters: []pawl.Waiter{c.waiter}}}})
		got := ""
		for _, sp := range news {
			got += sp.Waiter.User + " " + sp.State + ";"
		}
		if got != c.want {
			t.Errorf("look %d: %q, want %q", i, got, c.want)
		}
	}
}

// TestNothingIsKept: for whoever tells what has changed and forgets it.
func TestNothingIsKept(t *testing.T) {
	h, s := New(0), &Store{Name: "mem:"}
	held := &pawl.Info{Name: "x", Holders: []pawl.Held{{Lease: "a", Token: 1}}}
	for range 3 {
		if begun, _ := h.Take(s, &Look{At: time.Unix(1, 0), Infos: []*pawl.Info{held}}); len(begun) != 1 {
			t.Errorf("begun: %v", begun)
		}
		if ended, gone := h.Take(s, &Look{At: time.Unix(2, 0)}); len(ended) != 1 || ended[0].State != "ended" || !slices.Equal(gone, []string{"x"}) {
			t.Errorf("ended: %v, gone: %v", ended, gone)
		}
	}
	if n := len(h.Ended()); n != 0 || h.bytes != 0 || len(s.Locks) != 0 {
		t.Errorf("%d spans of %d bytes are kept, and %d names", n, h.bytes, len(s.Locks))
	}
}

// TestOthersClocks: what others say of when something began counts only between two looks.
func TestOthersClocks(t *testing.T) {
	prev, now := time.UnixMilli(1000), time.UnixMilli(2000)
	for said, want := range map[time.Time]int64{
		{}: 2000, time.UnixMilli(1): 1000, time.UnixMilli(1500): 1500, time.UnixMilli(9000): 2000,
	} {
		if got := between(prev, said, now); got != want {
			t.Errorf("said %v: %d; want %d", said, got, want)
		}
	}
	if got := between(time.Time{}, time.UnixMilli(1), now); got != 1 {
		t.Errorf("before the first look: %d", got)
	}
}

// TestHistoryIsBounded: and it tells how many spans it has room for. docs/serve.md says so.
func TestHistoryIsBounded(t *testing.T) {
	h, s := New(Bytes), &Store{Name: "redis://localhost:6379"}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := 0
	for i := range 60000 {
		now := time.Unix(int64(i), 0)
		info := &pawl.Info{Name: fmt.Sprintf("batch/%d", i), Holders: []pawl.Held{{
			Holder: pawl.Holder{User: "ci", Host: fmt.Sprintf("worker-%d", i), PID: i, Command: "terraform apply"},
			Lease:  fmt.Sprintf("%032d", i), Token: pawl.Token(i), Why: fmt.Sprintf("nightly run %d", i), Acquired: now,
		}}}
		h.Take(s, &Look{At: now, Infos: []*pawl.Info{info}})
		most = max(most, h.bytes)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := len(h.ended)
	if most > Bytes+1000 || n > 20000 || n < 5000 {
		t.Errorf("%d spans of %d bytes", n, most)
	}
	if grown := after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc); grown > 2*Bytes {
		t.Errorf("the heap has grown by %d bytes", grown)
	} else {
		t.Logf("%d spans in %d bytes: %d a MB", n, grown, n*1_000_000/int(grown))
	}
	runtime.KeepAlive(h)
}
