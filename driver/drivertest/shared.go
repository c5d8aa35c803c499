// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

var sharedTests = []Test{
	{Name: "readers-hold-together", Needs: []string{"Shared"}, run: readersTogether},
	{Name: "readers-keep-a-writer-out", Needs: []string{"Shared"}, run: readersKeepOut},
	{Name: "writer-keeps-readers-out", Needs: []string{"Shared"}, run: writerKeepsOut},
	{Name: "second-release-of-a-reader-spares-the-others", Needs: []string{"Shared"}, run: readerSecondRelease},
	{Name: "repeated-attempt-of-a-reader-is-one-hold", Needs: []string{"Shared"}, run: readerRepeated},
	{Name: "token-grows-with-every-reader", Needs: []string{"Shared", "Fencing"}, run: readerToken},
	{Name: "expiry-of-one-reader-spares-the-others", Needs: []string{"Shared", "Expiry"},
		run: func(e *env) { e.oneOfMany(e.reader, e.expireOne) }},
	{Name: "break-of-one-reader-spares-the-others", Needs: []string{"Shared", "Inspector"},
		run: func(e *env) { e.oneOfMany(e.reader, e.breakOne) }},
	{Name: "crash-of-one-reader-spares-the-others", Needs: []string{"Shared", "Crash"},
		run: func(e *env) { e.oneOfMany(e.reader, e.crashOne) }},
	{Name: "renewal-of-one-reader-is-its-own", Needs: []string{"Shared", "Expiry"}, run: readerRenewal},
	{Name: "inspect-describes-readers", Needs: []string{"Shared", "Inspector"}, run: inspectReaders},
	{Name: "inspect-tells-who-waits-to-read", Needs: []string{"Shared", "Inspector", "Queuer", "FIFO"}, run: inspectWaitingReaders},
}

func readersTogether(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	for range 2 { // and again, when nobody holds it
		var grants []driver.Grant
		for range 3 {
			grants = append(grants, e.tryReq(a, e.reader(name)), e.tryReq(b, e.reader(name)))
		}
		for _, g := range grants {
			if a.Guarantees().Expiry {
				e.renew(g, e.long())
			}
		}
		for _, g := range grants {
			e.release(g)
		}
	}
	e.free(a, name)
}

func readersKeepOut(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	for _, first := range []int{0, 1, 2} {
		grants := []driver.Grant{e.tryReq(a, e.reader(name)), e.tryReq(b, e.reader(name)), e.tryReq(a, e.reader(name))}
		for i := range grants {
			e.held(a, name)
			e.held(b, name)
			e.release(grants[(first+i)%3])
		}
		e.free(b, name)
	}
}

func writerKeepsOut(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.try(a, name)
	e.refused(b, e.reader(name))
	e.refused(a, e.reader(name))
	e.release(g)
	e.release(e.tryReq(b, e.reader(name)))
}

func readerSecondRelease(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	old := e.tryReq(a, e.reader(name))
	g := e.tryReq(b, e.reader(name))
	e.release(old)
	for range 2 {
		if err := old.Release(e.ctx); err != nil {
			e.ended("second Release of a reader", err)
		}
		e.held(a, name)
	}
	e.release(g)
	e.free(a, name)
}

// readerRepeated: like repeatedAttempt, but several readers hold the name.
func readerRepeated(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	other := e.tryReq(b, e.reader(name))
	req := e.reader(name)
	g := e.tryReq(a, req)
	again, err := a.TryAcquire(e.ctx, req)
	switch {
	case err == nil && again != nil:
		g = again
	case !errors.Is(err, driver.ErrHeld):
		e.Fatalf("repeated TryAcquire = %s, %v; want a grant or ErrHeld", show(again), err)
	}
	e.release(g)
	e.held(b, name)
	e.release(other)
	e.free(b, name)
}

func readerToken(e *env) {
	ds, name := []driver.Driver{e.open(), e.open()}, e.name("deploy")
	last := uint64(0)
	grew := func(what string, g driver.Grant) driver.Grant {
		e.Helper()
		if g.Token() <= last {
			e.Fatalf("%s has token %d after %d; want a greater one", what, g.Token(), last)
		}
		last = g.Token()
		return g
	}
	for range 3 {
		e.release(grew("a writer", e.try(ds[0], name)))
		var readers []driver.Grant
		for i := range 4 {
			readers = append(readers, grew("a reader", e.tryReq(ds[i%2], e.reader(name))))
			if i == 2 {
				e.release(readers[0])
				readers = readers[1:]
			}
		}
		for _, g := range readers {
			e.release(g)
		}
	}
}

// readerRenewal: one reader's renewal does not renew another reader's lease.
func readerRenewal(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	kept, lost := e.tryReq(a, e.brief(e.reader(name))), e.tryReq(b, e.brief(e.reader(name)))
	e.expireBut(kept)
	_, err := lost.Renew(e.ctx, e.h.TTL)
	e.lost("Renew of a reader that has expired", err)
	e.renew(kept, e.h.TTL)
	e.held(b, name)
	e.release(kept)
	e.free(b, name)
}

func inspectReaders(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	want := make(map[string]driver.Grant)
	for _, d := range []driver.Driver{a, b, a} {
		req := e.reader(name)
		want[req.Lease] = e.tryReq(d, req)
	}
	e.refused(a, e.request(name))
	info := e.inspect(b, name)
	if len(info.Holders) != 3 {
		e.Errorf("Inspect shows %d holders; want three", len(info.Holders))
	}
	for _, h := range info.Holders {
		g := want[h.Lease]
		if g == nil || !h.Shared || h.Slots != 0 || h.Token != driver.Token(g.Token()) || h.Why != "conformance" {
			e.Errorf("Inspect shows the holder %+v; want one of the readers", h)
		}
	}
	infos, err := b.(driver.Inspector).List(e.ctx, name)
	if err != nil || len(infos) != 1 || len(infos[0].Holders) != 3 || !infos[0].Holders[0].Shared {
		e.Errorf("List = %+v, %v; want the name with three readers", infos, err)
	}
	for _, g := range want {
		e.release(g)
	}
	g := e.try(a, name)
	if h := e.inspect(b, name).Holders; len(h) != 1 || h[0].Shared {
		e.Errorf("Inspect shows the holders %+v; want one that is not shared", h)
	}
	e.release(g)
}

func inspectWaitingReaders(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	w := e.wait(e.open(), e.reader(name))
	if ws := e.inspect(e.open(), name).Waiters; len(ws) != 1 || !ws[0].Shared || ws[0].Slots != 0 {
		e.Errorf("Inspect shows the queue as %+v; want one that waits to read", ws)
	}
	e.release(g)
	g = w.granted(e.h.Slack)
	w = e.wait(e.open(), e.request(name))
	if ws := e.inspect(e.open(), name).Waiters; len(ws) != 1 || ws[0].Shared {
		e.Errorf("Inspect shows the queue as %+v; want one that does not wait to read", ws)
	}
	e.release(g)
	e.release(w.granted(e.h.Slack))
}
