// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestInspectWaiters: whoever looks is told who waits for an exclusive lease, each once and however many
// there are, not of those that have gone, nor of the holder that came out of the queue.
func TestInspectWaiters(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	ctx := t.Context()
	locks := func(who string) *pawl.Client {
		o := patient()
		o.Holder = pawl.Holder{Who: who}
		c, err := Open(ctx, f.url(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := locks("first")
	held, err := first.Acquire(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		lease *pawl.Lease
		err   error
	}
	results := make(chan result, 3)
	stop := make(map[string]context.CancelFunc)
	for _, who := range []string{"a", "b", "c"} {
		c := locks(who)
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		stop[who] = cancel
		go func() {
			l, err := c.Acquire(waiting, name, pawl.Why("for "+who))
			results <- result{l, err}
		}()
	}
	look := locks("looks")
	shows := func(want ...string) {
		t.Helper()
		var got []string
		show := func(info *pawl.Info) bool {
			got = nil
			for _, w := range info.Waiters {
				got = append(got, w.Who+" "+w.Why)
				if w.Lease == "" || strings.Contains(w.Lease, ".") || len(info.Holders) == 1 && w.Lease == info.Holders[0].Lease {
					t.Errorf("the waiter is %+v, the holders %+v", w, info.Holders)
				}
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		}
		if !eventually(patience, func() bool {
			info, err := look.Inspect(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			return show(info)
		}) {
			t.Fatalf("Inspect shows that %q wait; want %q", got, want)
		}
		if !eventually(patience, func() bool {
			infos, err := look.List(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			return len(infos) == 1 && show(infos[0])
		}) {
			t.Fatalf("List shows that %q wait; want %q", got, want)
		}
	}
	shows("a for a", "b for b", "c for c")
	stop["b"]()
	if r := <-results; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("Acquire = %v", r.err)
	}
	shows("a for a", "c for c")
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-results
	if r.err != nil {
		t.Fatal(r.err)
	}
	if info, err := look.Inspect(ctx, name); err != nil || len(info.Holders) != 1 {
		t.Fatalf("Inspect = %+v, %v", info, err)
	} else if info.Holders[0].Who == "a" {
		shows("c for c")
	} else {
		shows("a for a")
	}

	// A node answers for any number of them.
	d := openDriver(t, f.url(), opts)
	var want []string
	for i := range 1000 {
		p := nodewire.Place{Name: "many", Lease: fmt.Sprintf("lease%04d.1", i), Place: uint64(1 + i/10), For: time.Minute, Token: 1, TTL: time.Second, Record: newRecord(&driver.Holder{Who: "a b"}, "")}
		if _, err := d.members[i%3].Enqueue(ctx, p); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("lease%04d", i))
	}
	info, err := d.Inspect(ctx, "many")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range info.Waiters {
		if got = append(got, w.Lease); w.Who != "a b" {
			t.Fatalf("a waiter is %+v", w)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("Inspect shows %d waiters; want %d, in their order", len(got), len(want))
	}
}

// TestNodeAwayAtFirst: a node that does not answer when a client begins is named in the log, once,
// although the client goes on.
func TestNodeAwayAtFirst(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, patient())
	for _, away := range []int{0, 1} {
		if away > 0 {
			f[2].Kill()
		}
		var log servers.Output
		opts := patient()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d := openDriver(t, f.url(), opts)
		for range 3 {
			g := get(t, d, lasting(name, time.Minute))
			release(t, g)
		}
		text := log.String()
		if strings.Count(text, "\n") != away || away > 0 && (!strings.Contains(text, "1 of 3 nodes have not answered, and 2 have to: "+f[2].Addr) || strings.Contains(text, f[0].Addr)) {
			t.Errorf("with %d nodes away the log says:\n%s", away, text)
		}
	}
}
