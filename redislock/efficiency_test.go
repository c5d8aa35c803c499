// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

func efficiently() *Options { return &Options{MaxTTL: time.Minute, Mode: Efficiency} }

func openPlain(t testing.TB, url string, opts *Options) *party {
	t.Helper()
	d, err := NewStore(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	p := asParty(d)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestEfficiencyForgets shows what is lost: after a restart there are two holders,
// which TestForgottenLease does not find with Correctness.
func TestEfficiencyForgets(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	a, b := openPlain(t, r.url(), efficiently()), openPlain(t, r.url(), efficiently())
	old := takePlain(t, a, "deploy")
	if _, err := b.TryAcquire(t.Context(), long("deploy")); !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("TryAcquire = %v; want ErrHeld", err)
	}
	r.restart()
	if !eventually(patience, func() bool { _, err := b.TryAcquire(t.Context(), long("deploy")); return err == nil }) {
		t.Fatal("the name is not granted")
	}
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

func takePlain(t testing.TB, p *party, name string) *participant.Lease {
	t.Helper()
	g, err := p.TryAcquire(t.Context(), long(name))
	if err != nil {
		t.Fatalf("TryAcquire = %v; want a grant", err)
	}
	if g.Token() != 0 {
		t.Errorf("token %d; want none", g.Token())
	}
	return g
}

// TestModesExcludeEachOther, look at each other, and can break each other's leases.
func TestModesExcludeEachOther(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	safe, fast := openLong(t, r), openPlain(t, r.url(), efficiently())
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
	g := takePlain(t, fast, "deploy")
	w := wait(t, r, safe, long("deploy"))
	release(t, g)
	release(t, w.granted(lookEvery+patience))
	// Another library's value has no spaces.
	r.do("set", lockKey(defaultPrefix, "deploy"), "random")
	if _, err := fast.TryAcquire(t.Context(), long("deploy")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld: another library has it", err)
	}
	if err := fast.Break(t.Context(), "deploy", "random", by, ""); err != nil {
		t.Errorf("Break = %v", err)
	}
	release(t, takePlain(t, fast, "deploy"))
}

// TestEfficiencyAskedAgain: the same request once more finds that the lock is its own, for the whole TTL.
func TestEfficiencyAskedAgain(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	wire, key := openPlain(t, r.url(), efficiently()).Participant.Store(), lockKey(defaultPrefix, "deploy")
	req := long("deploy")
	for range 2 {
		began := driver.Now()
		if ans, err := wire.Ask(t.Context(), req); err != nil || !ans.Granted || ans.Since < began {
			t.Errorf("Ask = %+v, %v; want a grant that counts from %v on", ans, err, began)
		}
		if pttl := r.do("pttl", key); len(pttl) != 5 || pttl < "30000" {
			t.Errorf("the lock lives for %s ms; want about a minute", pttl)
		}
		r.do("pexpire", key, "20000")
	}
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
		if _, err := Open(t.Context(), r.url(), opts); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("Open = %v; want an error with %q", err, what)
		}
	}
	if err := Bless(t.Context(), r.url(), efficiently()); err == nil || !strings.Contains(err.Error(), "leave out ?mode=") {
		t.Errorf("Bless = %v; want an error", err)
	}
}

// TestEfficiencyRights: few are enough, and without one of them no lease is granted.
func TestEfficiencyRights(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	rights := []string{"+set", "+eval", "+evalsha", "+get", "+pttl", "+pexpire", "+del"}
	r.do(append([]string{"acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:*"}, rights...)...)
	p := openPlain(t, "redis://app:s3cret@"+r.Addr+"?mode=efficiency", longOptions())
	g := takePlain(t, p, "deploy")
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
	p := openPlain(t, "redis://app:s3cret@"+r.Addr+"?mode=efficiency", longOptions())
	g := takePlain(t, p, "deploy")
	if err := p.Break(t.Context(), "deploy", g.ID(), nil, "enough"); err != nil {
		t.Errorf("Break = %v; want nil", err)
	}
}

// TestEfficiencyBreakHandsNothingOver: who waits with Correctness is not granted a broken lock by a client that knows no quarantine.
func TestEfficiencyBreakHandsNothingOver(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	safe, fast := openLong(t, r), openPlain(t, r.url(), efficiently())
	g := takePlain(t, fast, "deploy")
	listening(t, safe.store, "deploy")
	if err := fast.Break(t.Context(), "deploy", g.ID(), nil, "enough"); err != nil {
		t.Fatalf("Break = %v; want nil", err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	own, err := New(client, efficiently())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, url := range []string{c.url(), c.masters[0].url()} {
		locks := openClient(t, url, efficiently())
		efficientlyWork(t, locks, own)
	}
	a, b := openPlain(t, c.url(), efficiently()), openPlain(t, c.url(), efficiently())
	name := c.nameOn(0, "deploy")
	g := takePlain(t, a, name)
	c.move(name, c.masters[0], c.masters[1], func() {
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew while the slot moves = %v", err)
		}
	})
	if _, err := b.TryAcquire(t.Context(), long(name)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire where the slot has gone = %v; want ErrHeld", err)
	}
	release(t, g)
	release(t, takePlain(t, b, name))
	for _, m := range c.masters {
		if keys := m.do("keys", "*"); keys != "" {
			t.Errorf("%s has the keys %q; want none", m.Addr, keys)
		}
	}
}

// efficientlyWork checks that two clients take turns.
func efficientlyWork(t *testing.T, a, b *pawl.Client) {
	t.Helper()
	first := acquire(t, a, "deploy")
	if _, err := b.TryAcquire(t.Context(), "deploy"); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld", err)
	}
	if list, err := b.List(t.Context(), "dep"); err != nil || len(list) != 1 || list[0].Holders[0].Lease != first.ID() {
		t.Errorf("List = %v, %v; want the lease", list, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Do(ctx, "deploy", func(context.Context, *pawl.Lease) error { return nil }) }()
	if err := first.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("Extend = %v", err)
	}
	release(t, first)
	if err := <-done; err != nil {
		t.Errorf("Do = %v", err)
	}
}
