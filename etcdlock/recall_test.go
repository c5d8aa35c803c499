// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// ear is a grant that may be kept, and what it is told.
type ear struct {
	*grant
	told chan struct{}
}

func keepRequest(name string) *driver.Request {
	req := request(name)
	req.Keeps = true
	return req
}

func keep(t testing.TB, s *half, req *driver.Request) *ear {
	t.Helper()
	return listen(take(t, s, req))
}

func listen(g *grant) *ear {
	e := &ear{g, make(chan struct{}, 1000)}
	e.OnWanted(func() { e.told <- struct{}{} })
	return e
}

func (e *ear) hears(t testing.TB) {
	t.Helper()
	drivertest.Receive(t, e.told, "the keeper is not told that others want the name")
}

// quiet is how long nothing must be heard.
const quiet = 300 * time.Millisecond

// forget forgets what was told up to now, however often.
func (e *ear) forget() {
	for {
		select {
		case <-e.told:
		case <-time.After(quiet):
			return
		}
	}
}

// silent checks that the grant was told nothing up to now, and hears of a waiter then.
func (e *ear) silent(t testing.TB, s *half, name string) {
	t.Helper()
	select {
	case <-e.told:
		t.Error("the keeper is told something, and nobody wants the name")
	case <-time.After(quiet):
	}
	w := wait(t, s, request(name))
	e.hears(t)
	w.GiveUp()
	drivertest.Until(t, "the waiter that has given up stays in the queue", func() bool { return len(keysOf(t, s, w.req)) == 0 })
}

// refusedBy asks for a name that is held, and returns whether its client may keep it.
func refusedBy(t testing.TB, s *half, name string) bool {
	t.Helper()
	_, err := s.TryAcquire(t.Context(), request(name))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != 1 {
		t.Fatalf("TryAcquire = %v; want ErrHeld with a holder", err)
	}
	return held.Info.Holders[0].Keeps
}

// TestKeepIdleBeforeTheWatch: others come when the name is granted and before the watch is
// there, or while it is away.
func TestKeepIdleBeforeTheWatch(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	for how, come := range map[string]func(s *half, name string){
		"waits": func(s *half, name string) { wait(t, s, requestFor(name, time.Hour)) }, // it repeats that after a third
		"asks":  func(s *half, name string) { refusedBy(t, s, name) },
	} {
		a, b := openStore(t, m.url()), openStore(t, m.url())
		name := "deploy " + how
		var once sync.Once
		a.client.Watcher = &releasing{a.client.Watcher, func() { once.Do(func() { come(b, name) }) }}
		e := keep(t, a, keepRequest(name))
		e.hears(t)
		release(t, e)
	}
}

// TestKeepIdleAsk: to ask changes nothing of a lease: it is renewed, also with a longer TTL, and its mark ends with it.
func TestKeepIdleAsk(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	req := keepRequest("deploy")
	e := keep(t, a, req)
	was := keysOf(t, b, req)[0]
	if !refusedBy(t, b, req.Name) {
		t.Error("the lease does not look as if it could be kept")
	}
	e.hears(t)
	is := keysOf(t, b, req)[0]
	if string(is.Value) != string(was.Value) || is.Lease != was.Lease || is.ModRevision != was.ModRevision {
		t.Errorf("an ask has made %+v of %+v", is, was)
	}
	if mark, err := b.client.Get(t.Context(), e.backing.mark); err != nil || len(mark.Kvs) != 1 || mark.Kvs[0].Lease != int64(e.backing.id) {
		t.Errorf("the mark is bound to %+v, %v; want etcd lease %x", mark, err, int64(e.backing.id))
	}
	for _, ttl := range []time.Duration{time.Minute, 2 * time.Minute} {
		e.forget()
		refusedBy(t, b, req.Name)
		e.hears(t)
		if _, err := e.Renew(t.Context(), ttl); err != nil {
			t.Errorf("Renew = %v", err)
		}
	}
	release(t, e)
	nothingLeft(t, b)
}

// TestKeepIdleLateAsk: an ask that arrives when the lease has ended makes no key, and does not ask for the next
// one, which has the same mark.
func TestKeepIdleLateAsk(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	req := keepRequest("deploy")
	e := keep(t, a, req)
	q, err := b.queue(t.Context(), "deploy")
	must(t, err)
	release(t, e)
	b.askBack(t.Context(), q[0], true)
	nothingLeft(t, b)
	next := keep(t, a, keepRequest("deploy"))
	if next.key != e.key {
		t.Fatalf("the next lease has the key %s; this shows nothing", next.key)
	}
	b.askBack(t.Context(), q[0], true)
	next.silent(t, b, "deploy")
	release(t, next)
}

// TestKeepIdleBehind: a waiter that is granted a name hears that others wait for it.
func TestKeepIdleBehind(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	held := take(t, b, request("deploy"))
	first := wait(t, a, keepRequest("deploy"))
	second := wait(t, b, request("deploy"))
	release(t, held)
	g := first.granted(patience)
	if _, others := g.Reserved(); !others {
		t.Error("nobody is said to wait")
	}
	release(t, g)
	release(t, second.granted(patience))
}

// TestKeepIdleWatchIsCut: the keeper's connection is cut, and others come. It hears of them
// when it is there again, also if what it has missed was compacted.
func TestKeepIdleWatchIsCut(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	for _, compact := range []bool{false, true} {
		link := drivertest.NewLink(t, m.Addr)
		a, b := openStore(t, "etcd://"+link.Addr()), openStore(t, m.url())
		name := fmt.Sprint("compact=", compact)
		e := keep(t, a, keepRequest(name))
		refusedBy(t, b, name)
		e.hears(t)
		e.forget()
		link.Set(drivertest.BlackHole)
		w := wait(t, b, requestFor(name, time.Hour)) // which repeats the ask after a third
		if compact {
			resp, err := b.client.Put(t.Context(), "x", "")
			if err == nil {
				_, err = b.client.Compact(t.Context(), resp.Header.Revision, clientv3.WithCompactPhysical())
			}
			must(t, err)
		}
		link.Set(drivertest.Healthy)
		e.hears(t)
		release(t, e)
		release(t, w.granted(patience))
	}
}
