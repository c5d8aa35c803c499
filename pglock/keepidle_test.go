// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// keeper keeps leases for half of its TTL, which is longer than any test waits.
func keeper(t testing.TB, url string) *pawl.Client {
	t.Helper()
	c, err := Open(t.Context(), url, &Options{MaxTTL: wide.MaxTTL, Options: pawl.Options{TTL: 4 * patience}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// use has c take and release a name, and returns the id and token of the lease.
func use(t testing.TB, c *pawl.Client, name string) (id string, token pawl.Token) {
	t.Helper()
	l, err := c.Acquire(t.Context(), name, pawl.KeepIdle(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l.ID(), l.Token()
}

// kept has c keep a name, and returns its last token. A client that has just opened may not
// hear yet that others want it, and learns that when it has the lease: so it is kept only if
// it is still there after a few looks.
func kept(t testing.TB, c *pawl.Client, name string) (last pawl.Token) {
	t.Helper()
	was, times := "", 0
	if !eventually(patience, func() bool {
		id, token := use(t, c, name)
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		if times++; id != was {
			times = 0
		}
		was, last = id, token
		return times >= 3
	}) {
		t.Fatal("nothing is kept")
	}
	return last
}

// TestKeepIdle: what nobody uses costs its client no statement, and others get it as soon as
// they ask, before they would look again.
func TestKeepIdle(t *testing.T) {
	t.Parallel()
	p := server(t)
	c, other := keeper(t, p.URL("pawl")), keeper(t, p.URL("pawl"))
	for what, call := range map[string]func(context.Context, string, ...pawl.Option) (*pawl.Lease, error){
		"Acquire": other.Acquire, "TryAcquire": other.TryAcquire,
	} {
		// A busy machine may take longer than TryAcquire asks.
		if !eventually(patience, func() bool {
			last := kept(t, c, "kept")
			began := time.Now()
			l, err := call(t.Context(), "kept")
			if errors.Is(err, pawl.ErrHeld) {
				return false
			}
			if err != nil || l.Token() <= last {
				t.Fatalf("%s = %v, %v after token %d", what, l, err, last)
			}
			took := time.Since(began)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			return took < lookEvery/2
		}) {
			t.Errorf("%s of another client does not get what nobody uses", what)
		}
	}
}

// TestKeepIdleUnheard: when messages may be lost, what is kept is given back.
func TestKeepIdleUnheard(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	c, other := keeper(t, p.URL("pawl")), keeper(t, p.URL("pawl"))
	kept(t, c, "kept")
	sql(t, p, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' OR query LIKE '%pg_advisory_lock_shared%' AND pid <> pg_backend_pid()")
	if !eventually(patience, func() bool {
		info, err := other.Inspect(t.Context(), "kept")
		return err == nil && len(info.Holders) == 0
	}) {
		t.Error("a lease is kept although nobody can ask for it")
	}
	kept(t, c, "kept") // it listens again
}

// TestKeepIdlePooled: through a pooler no message comes, so nothing stays kept.
func TestKeepIdlePooled(t *testing.T) {
	t.Parallel()
	p := server(t)
	c, other := keeper(t, servers.StartPgBouncer(t, p, "").URL()), keeper(t, p.URL("pawl"))
	for range 3 {
		use(t, c, "kept through a pooler")
		if !eventually(patience, func() bool {
			info, err := other.Inspect(t.Context(), "kept through a pooler")
			return err == nil && len(info.Holders) == 0
		}) {
			t.Fatal("a lease is kept although nobody can ask for it")
		}
	}
}

// TestKeepIdleDeaf: a lease whose client will never hear that others want it does not say
// that it may be kept: whoever tries would ask again, for nothing, before it is refused.
func TestKeepIdleDeaf(t *testing.T) {
	t.Parallel()
	p := server(t)
	a, b := open(t, servers.StartPgBouncer(t, p, "").URL(), wide), open(t, p.URL("pawl"), wide)
	a.listening(t)
	req := request("deaf keeper", time.Minute)
	req.Keeps = true
	g, err := a.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 1)
	g.OnWanted(func() { told <- struct{}{} })
	<-told
	if info, err := b.Inspect(t.Context(), req.Name); err != nil || len(info.Holders) != 1 || info.Holders[0].Keeps {
		t.Errorf("%+v, %v", info, err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKeepIdleWaits: a client waits for a lease that it may keep before it listens. The race
// detector looks at how the two meet.
func TestKeepIdleWaits(t *testing.T) {
	t.Parallel()
	p := server(t)
	holder := keeper(t, p.URL("pawl"))
	for i := range 5 {
		name := fmt.Sprint("waits/", i)
		l, err := holder.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := keeper(t, p.URL("pawl"))
		got := make(chan error, 1)
		go func() {
			m, err := c.Acquire(t.Context(), name, pawl.KeepIdle(time.Hour))
			if err == nil {
				err = m.Release(t.Context())
			}
			got <- err
		}()
		if !eventually(patience, func() bool {
			info, err := holder.Inspect(t.Context(), name)
			return err == nil && len(info.Waiters) == 1
		}) {
			t.Fatal("nobody waits")
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// TestKeepIdleOfOthers: a lease whose record has the words in a text is not one that is
// kept.
func TestKeepIdleOfOthers(t *testing.T) {
	t.Parallel()
	p := server(t)
	a, b := open(t, p.URL("pawl"), wide), open(t, p.URL("pawl"), wide)
	req := request("with words", time.Minute)
	req.Why = `"keeps":true`
	g, err := a.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := sql(t, p, `SELECT count(*) FROM pawl.lock WHERE name = 'with words' AND record LIKE '%"keeps":true%'`); got != "0" {
		t.Errorf("%s leases look as if they were kept", got)
	}
	if info, err := b.Inspect(t.Context(), "with words"); err != nil || len(info.Holders) != 1 || info.Holders[0].Why != req.Why {
		t.Errorf("%+v, %v", info, err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
