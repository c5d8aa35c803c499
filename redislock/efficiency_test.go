// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func efficiently() *Options { return &Options{MaxTTL: time.Minute, Mode: Efficiency} }

// TestEfficiencyForgets shows what is lost: after a restart there are two holders,
// which TestForgottenLease does not find with Correctness.
func TestEfficiencyForgets(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	a, b := open(t, r.url(), efficiently()), open(t, r.url(), efficiently())
	old := take(t, a, long("deploy"))
	if old.Token() != 0 {
		t.Errorf("token %d; want none", old.Token())
	}
	if _, err := b.TryAcquire(t.Context(), long("deploy")); !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("TryAcquire = %v; want ErrHeld", err)
	}
	r.restart()
	await(t, "the name is not granted", func() bool { _, err := b.TryAcquire(t.Context(), long("deploy")); return err == nil })
	if left := old.Since().Add(time.Minute - driver.Drift(time.Minute)).Sub(driver.Now()); left < 0 {
		t.Fatalf("the first lease ended %v ago: this shows nothing", -left)
	}
	var err error
	if !eventually(patience, func() bool { _, err = old.Renew(t.Context(), time.Minute); return errors.Is(err, driver.ErrLost) }) {
		t.Errorf("Renew of the forgotten lease = %v; want ErrLost", err)
	}
	if keys := r.do("keys", "*"); keys != lockKey(defaultPrefix, "deploy") {
		t.Errorf("the server has the keys %q; want that of the lock only", keys)
	}
}

// TestModesExcludeEachOther, look at each other, and can break each other's leases.
func TestModesExcludeEachOther(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	safe, fast := openLong(t, r), open(t, r.url(), efficiently())
	by := &driver.Holder{Who: "operator"}
	for what, c := range map[string]struct {
		one, other *party
	}{"Efficiency first": {fast, safe}, "Correctness first": {safe, fast}} {
		g, err := c.one.TryAcquire(t.Context(), long("deploy"))
		if err != nil {
			t.Fatalf("%s: TryAcquire = %v; want a grant", what, err)
		}
		var held *driver.HeldError
		if _, err := c.other.TryAcquire(t.Context(), long("deploy")); !errors.As(err, &held) || held.Info.Holders[0].Who != "test" {
			t.Errorf("%s: TryAcquire = %v; want a HeldError that names the holder", what, err)
		}
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("%s: Renew = %v", what, err)
		}
		infos, err := c.other.List(t.Context(), "")
		if err != nil || len(infos) != 1 || infos[0].Token != 0 && infos[0].Holders[0].Token != driver.Token(uint64(g.Token())) {
			t.Fatalf("%s: List = %v, %v; want the lock", what, infos, err)
		}
		if err := c.other.Break(t.Context(), "deploy", infos[0].Holders[0].Lease, by, "enough"); err != nil {
			t.Errorf("%s: Break = %v", what, err)
		}
		var lost *driver.LostError
		if _, err := g.Renew(t.Context(), time.Minute); !errors.As(err, &lost) || lost.By == nil || lost.By.Who != "operator" || lost.Why != "enough" {
			t.Errorf("%s: Renew after Break = %v; want a LostError that says who and why", what, err)
		}
	}
	g := take(t, fast, long("deploy"))
	w := wait(t, r, safe, long("deploy"))
	release(t, g)
	release(t, w.granted(lookEvery+patience))
	// Another library's value has no spaces.
	r.do("set", lockKey(defaultPrefix, "deploy"), "random")
	fails(t, "TryAcquire", errorOf(fast.TryAcquire(t.Context(), long("deploy"))), driver.ErrHeld)
	succeeds(t, "Break", fast.Break(t.Context(), "deploy", "random", by, ""))
	release(t, take(t, fast, long("deploy")))
}

// TestEfficiencyRefused: options that make no sense in this mode.
func TestEfficiencyRefused(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	for what, opts := range map[string]*Options{
		`there is no Mode "fast"`:             {Mode: "fast"},
		"leave one of them out":               {Mode: Efficiency, WaitReplicas: 1},
		"Fencing":                             {Mode: Efficiency, Options: pawl.Options{Require: pawl.Guarantees{Fencing: true}}},
		"is longer than MaxTTL, which is 10s": {Mode: Efficiency, MaxTTL: 10 * time.Second, Options: pawl.Options{TTL: time.Minute}},
	} {
		fails(t, "Open", errorOf(Open(t.Context(), r.url(), opts)), nil, what)
	}
	fails(t, "Bless", Bless(t.Context(), r.url(), efficiently()), nil, "leave out ?mode=")
}

// TestEfficiencyRights: few are enough, and without one of them no lease is granted.
func TestEfficiencyRights(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	rights := []string{"+set", "+eval", "+evalsha", "+get", "+pttl", "+pexpire", "+del"}
	r.do(append([]string{"acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:*"}, rights...)...)
	p := open(t, "redis://app:s3cret@"+r.Addr+"?mode=efficiency", longOptions())
	g := take(t, p, long("deploy"))
	renews(t, g)
	release(t, g)
	r.do("acl", "setuser", "app", "-set")
	if g, err := p.TryAcquire(t.Context(), long("deploy")); g != nil || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "right") {
		t.Errorf("TryAcquire without the right = %v, %v; want ErrUnavailable", g, err)
	}
}

// TestEfficiencyBreakKeys: all keys of a break have the hash tag of the name, as a proxy before several servers demands. The
// server refuses others to this user.
func TestEfficiencyBreakKeys(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	r.do("acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:{deploy}*", "&*", "+@all")
	p := open(t, "redis://app:s3cret@"+r.Addr+"?mode=efficiency", longOptions())
	g := take(t, p, long("deploy"))
	succeeds(t, "Break", p.Break(t.Context(), "deploy", g.ID(), nil, "enough"))
}

// TestEfficiencyBreakHandsNothingOver: who waits with Correctness is not granted a broken lock by a client that knows no quarantine.
func TestEfficiencyBreakHandsNothingOver(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	safe, fast := openLong(t, r), open(t, r.url(), efficiently())
	g := take(t, fast, long("deploy"))
	listening(t, safe.store, "deploy")
	must(t, fast.Break(t.Context(), "deploy", g.ID(), nil, "enough"))
	if value := r.do("get", lockKey(defaultPrefix, "deploy")); value != "" || queueLen(r, "deploy") != 1 {
		t.Errorf("the lock is %q, and %d wait; want that it is free, and one waits", value, queueLen(r, "deploy"))
	}
}

// TestEfficiencyCluster: by the URL of a cluster, by that of one of its nodes, by a
// client for one, and while a slot moves. Nothing is written but the lock.
func TestEfficiencyCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.masters[0].Addr}, AlwaysPipelining: true, DisableCache: true})
	must(t, err)
	defer client.Close()
	own, err := New(client, efficiently())
	must(t, err)
	defer own.Close()
	for _, url := range []string{c.url(), c.masters[0].url()} {
		locks := openClient(t, url, efficiently())
		lease := acquire(t, locks, "deploy")
		fails(t, "TryAcquire", errorOf(own.TryAcquire(t.Context(), "deploy")), driver.ErrHeld)
		if list, err := own.List(t.Context(), "dep"); err != nil || len(list) != 1 || list[0].Holders[0].Lease != lease.ID() {
			t.Errorf("List = %v, %v; want the lease", list, err)
		}
		release(t, lease)
	}
	a, b := open(t, c.url(), efficiently()), open(t, c.url(), efficiently())
	name := c.nameOn(0, "deploy")
	g := take(t, a, long(name))
	c.move(name, c.masters[0], c.masters[1], func() {
		succeeds(t, "Renew while the slot moves", errorOf(g.Renew(t.Context(), time.Minute)))
	})
	fails(t, "TryAcquire where the slot has gone", errorOf(b.TryAcquire(t.Context(), long(name))), driver.ErrHeld)
	release(t, g)
	release(t, take(t, b, long(name)))
	for _, m := range c.masters {
		if keys := m.do("keys", "*"); keys != "" {
			t.Errorf("%s has the keys %q; want none", m.Addr, keys)
		}
	}
}
