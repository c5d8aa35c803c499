// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestPatternOfTheFirstAfterLossOfData: a client with other keys that comes first makes the
// record, but those that had leases before have it while nothing is granted yet.
func TestPatternOfTheFirstAfterLossOfData(t *testing.T) {
	t.Parallel()
	r := patternedServer(t)
	a := open(t, r.url(), patterned())
	release(t, take(t, a, long("deploy")))
	r.do("flushall")
	// The first client may hear of the loss before the second is there.
	d, err := NewStore(t.Context(), r.url(), longOptions())
	var b *party
	if err == nil {
		b = asParty(d)
		defer b.Close()
		if _, err := b.TryAcquire(t.Context(), long("deploy")); err == nil {
			t.Fatal("a server that has lost its data grants a lease")
		}
	}
	if !eventually(patience, func() bool { return strings.HasPrefix(r.do("get", "pawl:epoch"), "1 lock") }) {
		t.Errorf("the record is %s; want that of the clients that were there before", r.do("get", "pawl:epoch"))
	}
	if err == nil {
		_, err = b.TryAcquire(t.Context(), long("deploy"))
	}
	disagrees(t, "a client without the pattern", err, "lock:*")
	if _, err := a.TryAcquire(t.Context(), long("deploy")); !errors.As(err, new(*driver.ClosedError)) {
		t.Errorf("TryAcquire of the client with the pattern = %v; want ClosedError", err)
	}
}

// TestPatternOfOthersWhileAtWork: somebody has deleted the records, and declared that nobody has a
// lease. Clients that were at work get no lease beside those with other keys, nor more time, and are told.
func TestPatternOfOthersWhileAtWork(t *testing.T) {
	t.Parallel()
	r := patternedServer(t)
	a := open(t, r.url(), patterned())
	g := take(t, a, long("deploy"))
	waited := make(chan error, 1)
	go func() {
		_, err := a.Acquire(t.Context(), long("deploy"))
		waited <- err
	}()
	await(t, "Acquire does not join the queue", func() bool { return r.do("zcard", "pawl:{lock:deploy}:queue") == "1" })
	await(t, "Bless finds the record each time", func() bool {
		r.do("del", "pawl:epoch", "pawl:pattern")
		return Bless(t.Context(), r.url(), longOptions()) == nil // the waiter may look in between, and write the record
	})
	take(t, open(t, r.url(), longOptions()), long("deploy"))
	_, err := g.Renew(t.Context(), long("deploy").TTL)
	disagrees(t, "Renew", err, "clients without a Pattern")
	disagrees(t, "TryAcquire", errorOf(a.TryAcquire(t.Context(), long("build"))), "clients without a Pattern")
	disagrees(t, "Acquire that waits", <-waited)
	disagrees(t, "Bless", Bless(t.Context(), r.url(), patterned()))
	release(t, g)
}

// TestPatternWithEfficiency: such clients make no record of an epoch, and heed one.
func TestPatternWithEfficiency(t *testing.T) {
	t.Parallel()
	efficient := func(pattern string) *Options {
		opts := longOptions()
		opts.Mode, opts.Pattern = Efficiency, pattern
		return opts
	}
	r := patternedServer(t)
	_, err := NewStore(t.Context(), r.url(), efficient(""))
	disagrees(t, "no pattern", err, "lock:*")
	r = startServer(t)
	d, err := NewStore(t.Context(), r.url(), efficient("lock:*"))
	must(t, err)
	defer d.Close()
	disagrees(t, "another pattern", errorOf(NewStore(t.Context(), r.url(), efficient("other:*"))), "lock:*")
}

// TestClusterPatternOfASlot: a client that found no record when it began meets one in the slot
// of a lock, and from then on gets nothing in any slot.
func TestClusterPatternOfASlot(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := patterned()
	bless(t, c.url(), opts)
	a := open(t, c.url(), opts)
	g := take(t, a, long("deploy"))
	home := a.server.EpochKey("pawl:pattern")
	for _, m := range c.masters {
		m.do("del", home)
		m.do("del", "pawl:pattern")
	}
	b := open(t, c.url(), longOptions())
	for _, name := range []string{"deploy", "build"} {
		_, err := b.TryAcquire(t.Context(), long(name))
		disagrees(t, "TryAcquire of "+name, err, "lock:*")
	}
	err := Bless(t.Context(), c.url(), longOptions())
	if disagrees(t, "Bless", err, "lock:*"); errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Bless = %v; want no ErrUnavailable", err)
	}
	succeeds(t, "Renew", errorOf(g.Renew(t.Context(), long("deploy").TTL)))
}
