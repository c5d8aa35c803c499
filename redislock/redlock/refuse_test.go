// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestRefusals(t *testing.T) {
	same, again := masters(3), masters(3)
	same[0].id, same[1].id, same[2].id = "8a6f", "8a6f", "8a6f"
	again[1].addr = again[0].addr
	for _, c := range []struct {
		what string
		all  []*master
		opts Options
		want []string // in the error
	}{
		{"none", nil, Options{}, []string{"0 nodes", "odd number"}},
		{"one", masters(1), Options{}, []string{"one node is no quorum", "redis://"}},
		{"two", masters(2), Options{}, []string{"2 nodes", "odd number"}},
		{"four", masters(4), Options{AllowSingle: true}, []string{"4 nodes", "odd number"}},
		{"small quorum", masters(5), Options{Quorum: 2}, []string{"Quorum 2 of 5", "3 to 5"}},
		{"large quorum", masters(5), Options{Quorum: 6}, []string{"Quorum 6 of 5"}},
		{"same address", again, Options{}, []string{"node0 is named twice"}},
		{"same server", same, Options{}, []string{"node1: it answers, but counts as down: it is the same server as node0", "8a6f"}},
		{"negative timeout", masters(3), Options{NodeTimeout: -time.Second}, []string{"NodeTimeout -1s"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := newStore(t.Context(), nodes(c.all), &c.opts)
				if d != nil || err == nil || errors.Is(err, driver.ErrUnavailable) {
					t.Fatalf("newStore = %v; want a refusal", err)
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error is %q; want %q in it", err, want)
					}
				}
			})
		})
	}
}

func TestLargerQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		d := start(t, all, &Options{Quorum: 4})
		others(all[:1], "other")
		release(t, try(t, d))
		synctest.Wait() // the last nodes give it back behind the answer
		others(all[1:2], "other")
		if _, err := d.TryAcquire(t.Context(), request()); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("TryAcquire with two of five held and a quorum of 4 = %v; want ErrHeld", err)
		}
		time.Sleep(time.Second)
	})
}

func TestRequestsThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		long, id, slot := request(), request(), request()
		long.TTL = time.Hour
		id.Lease = "a.b"
		slot.Slots = 2
		for _, req := range []*driver.Request{long, id, slot} {
			if _, err := d.TryAcquire(t.Context(), req); err == nil || errors.Is(err, driver.ErrHeld) {
				t.Errorf("TryAcquire(%+v) = %v; want a refusal", req, err)
			}
		}
		if _, err := d.Acquire(t.Context(), slot); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "nobody could count them") {
			t.Errorf("Acquire of a slot = %v; want an error that says why not, and what to use", err)
		}
	})
}
