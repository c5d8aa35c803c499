// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

var recaller = []string{"Recaller"}

var recallTests = []Test{
	{Name: "kept-lease-hears-of-a-waiter", Needs: []string{"Recaller", "Queuer"}, run: recallWaits},
	{Name: "kept-lease-hears-of-who-was-refused", Needs: recaller, run: recallAsks},
	{Name: "kept-lease-that-was-waited-for-hears-of-others", Needs: []string{"Recaller", "Queuer"}, run: recallHandedOver},
	{Name: "kept-lease-has-reserved-tokens", Needs: recaller, run: recallReserves},
	{Name: "lease-that-is-not-kept-is-not-asked-for", Needs: recaller, run: recallNotKept},
	{Name: "name-that-nobody-uses-goes-to-whoever-asks", Needs: []string{"Recaller", "Queuer"}, run: recallClients},
}

// recalls collects what a grant is told.
type recalls struct {
	driver.Grant
	told chan driver.Recall
}

func (e *env) recallable(g driver.Grant) *recalls {
	e.Helper()
	r, ok := g.(driver.Recallable)
	if !ok {
		e.Fatalf("the grant of a request with Keeps is a %T, and no driver.Recallable", g)
	}
	k := &recalls{g, make(chan driver.Recall, 100)}
	r.OnWanted(func(how driver.Recall) {
		select {
		case k.told <- how:
		default:
		}
	})
	return k
}

// keep takes what req asks for, to keep it. A participant may not hear yet that others want
// it: it is told so, and tries again.
func (e *env) keep(d driver.Driver, req func() *driver.Request) (*recalls, *driver.Request) {
	e.Helper()
	var k *recalls
	var is *driver.Request
	e.eventually(e.h.TTL+10*e.h.Slack, func() error {
		is = req()
		is.Keeps = true
		k = e.recallable(e.tryReq(d, is))
		e.pause()
		select {
		case how := <-k.told:
			e.release(k)
			return fmt.Errorf("a recall, %d, before anybody wants the name", how)
		default:
			return nil
		}
	})
	return k, is
}

func (e *env) keepName(d driver.Driver, name string) (*recalls, *driver.Request) {
	e.Helper()
	return e.keep(d, func() *driver.Request { return e.request(name) })
}

// hears waits until the grant is told want.
func (k *recalls) hears(e *env, want driver.Recall) {
	e.Helper()
	for limit := time.After(e.limit(e.soon())); ; {
		select {
		case how := <-k.told:
			if how == want {
				return
			}
		case <-limit:
			e.Fatalf("the grant was not told that others want the name: %d", want)
		}
	}
}

// refusedBy asks for name, which is held, and returns whether its client may keep it.
func (e *env) refusedBy(d driver.Driver, name string) bool {
	e.Helper()
	g, err := d.TryAcquire(e.ctx, e.request(name))
	var held *driver.HeldError
	if g != nil || !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != 1 {
		e.Fatalf("TryAcquire = %s, %v; want ErrHeld with one holder", show(g), err)
	}
	return held.Info.Holders[0].Keeps
}

func recallWaits(e *env) {
	a, b := e.open(), e.open()
	k, req := e.keepName(a, e.name("deploy"))
	w := e.wait(b, e.request(req.Name))
	k.hears(e, driver.Waits)
	w.waits()
	e.release(k)
	e.release(w.granted(e.soon()))
}

func recallAsks(e *env) {
	a, b := e.open(), e.open()
	k, req := e.keepName(a, e.name("deploy"))
	if !e.refusedBy(b, req.Name) {
		e.Error("HeldError does not say that the client of the holder may keep the name")
	}
	k.hears(e, driver.Asks)
	e.refusedBy(b, req.Name)
	k.hears(e, driver.Asks) // each time
	e.release(k)
	e.free(b, req.Name)
}

// recallHandedOver: what is granted by a message is asked for as well.
func recallHandedOver(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	k, _ := e.keepName(b, e.name("first")) // so that b hears
	e.release(k)
	g := e.try(a, name)
	req := e.request(name)
	req.Keeps, req.Renewed = true, true
	w := e.wait(b, req)
	e.release(g)
	k = e.recallable(w.granted(e.soon()))
	_, err := k.Renew(e.ctx, req.TTL)
	if err != nil {
		e.Fatalf("Renew = %v; want nil", err)
	}
	e.refusedBy(a, name)
	k.hears(e, driver.Asks)
	e.release(k)
}

func recallReserves(e *env) {
	k, _ := e.keepName(e.open(), e.name("deploy"))
	r, ok := k.Grant.(driver.Reserver)
	if !ok {
		e.Fatalf("the grant of a request with Keeps is a %T, and no driver.Reserver", k.Grant)
	}
	if n, _ := r.Reserved(); n == 0 {
		e.Error("no tokens are set aside for the next leases of a client that keeps the name")
	}
	e.release(k)
}

// silent checks that k is told nothing.
func (e *env) silent(k *recalls) {
	e.Helper()
	time.Sleep(e.h.TTL/8 + e.h.Pause)
	select {
	case how := <-k.told:
		if how != driver.Unheard {
			e.Errorf("a grant was told that others want the name (%d), although its client does not keep it", how)
		}
	default:
	}
}

func recallNotKept(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	k := &recalls{e.try(a, name), make(chan driver.Recall, 100)}
	if r, ok := k.Grant.(driver.Recallable); ok {
		r.OnWanted(func(how driver.Recall) { k.told <- how })
	}
	if e.refusedBy(b, name) {
		e.Error("HeldError says that the client may keep a name that it does not keep")
	}
	e.silent(k)
	e.release(k)
}

// recallClients: what a client keeps costs it no grant, and others get it at once, also with
// a call that does not wait.
func recallClients(e *env) {
	a, b := e.client(), e.client()
	name := e.name("deploy")
	for _, try := range []bool{false, true} {
		e.eventually(e.h.TTL+20*e.h.Slack, func() error {
			first := e.get(a, name, pawl.KeepIdle(time.Hour))
			e.give(first)
			again := e.get(a, name, pawl.KeepIdle(time.Hour))
			e.give(again)
			if again.ID() != first.ID() {
				return errors.New("a client keeps nothing")
			}
			if again.Token() <= first.Token() {
				e.Fatalf("token %d after %d", again.Token(), first.Token())
			}
			began := driver.Now()
			acquire := b.Acquire
			if try {
				acquire = b.TryAcquire
			}
			l, err := acquire(e.ctx, name)
			switch {
			case errors.Is(err, pawl.ErrHeld): // a machine that is busy
				return err
			case err != nil:
				e.Fatalf("another client = %v; want a lease", err)
			case l.Token() <= again.Token():
				e.Fatalf("token %d of another client after %d", l.Token(), again.Token())
			}
			took := driver.Now().Sub(began)
			e.give(l)
			if took > e.soon() {
				return fmt.Errorf("others waited %v for what nobody used", took)
			}
			return nil
		})
	}
}
