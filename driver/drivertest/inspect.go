// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

var inspector = []string{"Inspector"}

var inspectTests = []Test{
	{Name: "held-error-names-the-holder", Needs: inspector, run: heldError},
	{Name: "inspect-describes-the-holder", Needs: inspector, run: inspectHolder},
	{Name: "inspect-describes-the-queue", Needs: []string{"Inspector", "Queuer", "FIFO"}, run: inspectQueue},
	{Name: "inspect-of-an-expired-lease-shows-nobody", Needs: []string{"Inspector", "Expiry"}, run: inspectExpired},
	{Name: "list-is-sorted-and-by-prefix", Needs: inspector, run: listSorted},
}

func (e *env) inspect(d driver.Driver, name string) *driver.Info {
	e.Helper()
	info, err := d.(driver.Inspector).Inspect(e.ctx, name)
	if err != nil || info == nil || info.Name != name {
		e.Fatalf("Inspect(%q) = %+v, %v; want the description of that name", name, info, err)
	}
	return info
}

func heldError(e *env) {
	a, b := e.open(), e.open()
	req := e.request(e.name("deploy"))
	g := e.tryReq(a, req)
	_, err := b.TryAcquire(e.ctx, e.request(req.Name))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != 1 {
		e.Fatalf("TryAcquire = %v; want a *HeldError with the holder", err)
	}
	e.sameHolder(held.Info.Holders[0], req, g)
	e.release(g)
}

func (e *env) sameHolder(got driver.Held, req *driver.Request, g driver.Grant) {
	e.Helper()
	want := driver.Held{Holder: *req.Holder, Lease: req.Lease, Token: driver.Token(g.Token()), Why: req.Why}
	if got.Holder != want.Holder || got.Lease != want.Lease || got.Token != want.Token || got.Why != want.Why {
		e.Errorf("holder is shown as %+v; want %+v", got, want)
	}
}

func inspectHolder(e *env) {
	a, b := e.open(), e.open()
	req := e.request(e.name("deploy"))
	if info := e.inspect(b, req.Name); len(info.Holders)+len(info.Waiters) != 0 {
		e.Errorf("Inspect of a name never used = %+v; want nobody", info)
	}
	g := e.tryReq(a, req)
	info := e.inspect(b, req.Name)
	if len(info.Holders) != 1 {
		e.Fatalf("Inspect shows %d holders; want one", len(info.Holders))
	}
	e.sameHolder(info.Holders[0], req, g)
	if info.Token != 0 && info.Token < driver.Token(g.Token()) {
		e.Errorf("Inspect shows the largest token as %d; want at least %d", info.Token, g.Token())
	}
	e.release(g)
	if info := e.inspect(b, req.Name); len(info.Holders) != 0 {
		e.Errorf("Inspect after Release = %+v; want no holder", info)
	}
}

func inspectQueue(e *env) {
	d, name := e.open(), e.name("deploy")
	g := e.try(d, name)
	var ws []*call
	ids, held := make(map[string]string), make(map[string][]driver.Hold)
	for i := range 3 {
		req := e.request(name)
		req.Holder = &driver.Holder{Who: fmt.Sprint("waiter ", i)}
		if i != 1 { // most waiters hold nothing
			req.Holds = []driver.Hold{{Name: `the first "lock"`, Lease: fmt.Sprint("first of ", i)}, {Name: "another", Lease: "second"}}
		}
		ids[req.Holder.Who] = req.Lease
		held[req.Holder.Who] = req.Holds
		ws = append(ws, e.wait(e.open(), req))
	}
	queue := func(want ...string) {
		e.Helper()
		var got []string
		for _, w := range e.inspect(d, name).Waiters {
			got = append(got, w.Who)
			if w.Lease != ids[w.Who] {
				e.Errorf("Inspect shows %s with the lease %q; want %q", w.Who, w.Lease, ids[w.Who])
			}
			if !slices.Equal(w.Holds, held[w.Who]) {
				e.Errorf("Inspect shows that %s holds %q; want %q", w.Who, w.Holds, held[w.Who])
			}
		}
		if !d.Guarantees().FIFO {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			e.Errorf("Inspect shows the queue as %q; want %q", got, want)
		}
	}
	queue("waiter 0", "waiter 1", "waiter 2")
	ws[1].cancelled()
	queue("waiter 0", "waiter 2")
	ws[0].cancelled()
	e.release(g)
	e.release(ws[2].granted(e.h.Slack))
	queue()
}

func inspectExpired(e *env) {
	_, d, name := e.expired()
	if info := e.inspect(d, name); len(info.Holders) != 0 {
		e.Errorf("Inspect of an expired lease = %+v; want no holder", info)
	}
}

func listSorted(e *env) {
	d, other := e.open(), e.open()
	list := func(prefix string, want ...string) {
		e.Helper()
		infos, err := other.(driver.Inspector).List(e.ctx, e.name(prefix))
		if err != nil {
			e.Fatalf("List(%q) = %v", prefix, err)
		}
		got := []string{}
		for _, info := range infos {
			got = append(got, info.Name[len(e.prefix):])
			if len(info.Holders) != 1 {
				e.Errorf("List shows %d holders of %q; want one", len(info.Holders), info.Name)
			}
		}
		if !slices.Equal(got, want) {
			e.Errorf("List(%q) = %q; want %q", prefix, got, want)
		}
	}
	grants := make(map[string]driver.Grant)
	for _, s := range []string{"b/2", "a/1", "b/10", "a[b", "a*", "b", "free"} {
		grants[s] = e.try(d, e.name(s))
	}
	e.release(grants["free"])
	list("", "a*", "a/1", "a[b", "b", "b/10", "b/2")
	list("a*", "a*")
	list("a[", "a[b")
	list("b/", "b/10", "b/2")
	list("c")
}
