// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"strings"
	"testing"
)

// recorded is four servers, and the sets of the first three and of all but the third. It records at each what
// the test says, as changes that were interrupted leave it.
type recorded struct {
	fleet
	abc, abd entry
}

func startRecorded(t *testing.T) *recorded {
	f := startServers(t, 4)
	set := func(gen int, names string, which ...int) entry {
		e := entry{store: "store", gen: gen, set: newSet(2, strings.Split(names, ""))}
		for _, s := range pick(f, which...) {
			e.addrs = append(e.addrs, s.Addr)
		}
		return e
	}
	return &recorded{f, set(1, "abc", 0, 1, 2), set(2, "abd", 0, 1, 3)}
}

func (r *recorded) open(node int, e entry, gen int) {
	e = e.as("abcd"[node : node+1])
	e.gen = gen
	r.fleet[node].do("set", nodesKey, e.text())
}

func (r *recorded) closed(node int, e entry, gen int, next entry) {
	e = e.as("abcd"[node : node+1])
	e.gen, e.state, e.mark, e.next, e.addrN, e.by = gen, isClosed, "mark", next.set, next.addrs, "somebody"
	r.fleet[node].do("set", nodesKey, e.text())
}

func (r *recorded) now(node int) entry { return parseEntry(r.fleet[node].do("get", nodesKey)) }

func (r *recorded) change(from, to entry) Change {
	url := func(e entry) string { return "redlock://" + strings.Join(e.addrs, ",") }
	return Change{From: url(from), To: url(to), Options: withMaxTTL(changeTTL)}
}

// TestAbortInTheWrongDirection: a change back that was interrupted is not taken back where a quorum is open already.
func TestAbortInTheWrongDirection(t *testing.T) {
	t.Parallel()
	r := startRecorded(t)
	r.open(2, r.abc, 3)          // a change to abc did not get further,
	r.closed(0, r.abd, 2, r.abd) // and was taken back
	r.open(1, r.abd, 4)
	r.open(3, r.abd, 4)
	if err := r.change(r.abc, r.abd).Abort(t.Context()); err == nil || !strings.Contains(err.Error(), "open already") {
		t.Errorf("Abort = %v; want an error that says that the new nodes are open already", err)
	}
	if e := r.now(0); e.state != isClosed {
		t.Errorf("the first node has recorded %q; want it closed", e.raw)
	}
	if err := r.change(r.abc, r.abd).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if e := r.now(0); e.state != isOpen || e.gen != 4 {
		t.Errorf("after the change the first node has recorded %q; want generation 4, open", e.raw)
	}
}
