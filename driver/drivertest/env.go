// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// env is what one test works with.
type env struct {
	testing.TB
	h      *Harness
	store  Store
	ctx    context.Context // ends with the test
	prefix string          // of all names of this test
	has    map[string]bool // what the store has of what tests may need, once looked for
	calls  sync.WaitGroup  // the goroutines that wait in Acquire
	ends   ends
	leases leases // of clients
	pulse  pulse
}

func newEnv(t testing.TB, h *Harness) *env {
	e := &env{TB: &ending{TB: t}, h: h, store: h.Start(t), prefix: "drivertest-" + rand.Text()[:8] + "/", ends: ends{of: make(map[any]lease)}}
	if e.store.Open == nil {
		t.Fatal("drivertest: Store.Open is nil")
	}
	// The limit is for stores that hang for ever.
	ctx, cancel := context.WithTimeout(context.Background(), 10*e.long())
	e.ctx = ctx
	e.Cleanup(func() {
		cancel()
		e.calls.Wait()
	})
	t.Cleanup(e.end)
	if h.real {
		e.calls.Go(func() { e.pulse.beat(ctx) })
	}
	return e
}

// end ends everything that the test has begun.
func (e *env) end() { e.TB.(*ending).end() }

// missing returns the first of needs that the store does not have, or "".
func (e *env) missing(needs []string) string {
	if len(needs) == 0 {
		return ""
	}
	probe := e.request(e.name("probe"))
	if slices.Contains(needs, "Restart") {
		probe = e.passing(probe.Name)
	}
	e.look(probe, slices.Contains(needs, "LongerTTL"))
	for _, need := range needs {
		ok, known := e.has[need]
		if !known {
			e.Fatalf("drivertest: unknown need %q", need)
		}
		if !ok {
			return need
		}
	}
	return ""
}

// look finds out what the store has, with a lease: guarantees, interfaces, hooks, and, if
// longer is set, whether a lease can be renewed for longer than it was asked for.
func (e *env) look(probe *driver.Request, longer bool) {
	d := e.open()
	g := e.tryReq(d, probe)
	defer e.release(g)
	sure := d.Guarantees()
	_, queuer := d.(driver.Queuer)
	_, inspector := d.(driver.Inspector)
	_, notifier := g.(driver.Notifier)
	_, reserves := g.(driver.Reserver)
	_, downgrader := g.(driver.Downgrader)
	_, adopter := d.(driver.Adopter)
	r, recalls := d.(driver.Recaller)
	if p, ok := d.(interface{ Caps() driver.Caps }); ok {
		caps := p.Caps()
		queuer, inspector, notifier, downgrader, adopter = caps.Queue, caps.Shows, notifier && caps.Queue, caps.Downgrades, caps.Adopts
	}
	e.has = map[string]bool{
		"Queuer": queuer, "Inspector": inspector, "Notifier": notifier, "Reserver": reserves,
		"Downgrader": downgrader && sure.Shared, "Adopter": adopter && sure.Expiry, "Recaller": recalls && r.Recalls() && sure.Expiry,
		"Crash": e.store.Crash != nil, "Restart": e.store.Restart != nil,
		"Cut": e.store.Cut != nil && e.store.Heal != nil,
	}
	for i, v := 0, reflect.ValueOf(sure); i < v.NumField(); i++ {
		e.has[v.Type().Field(i).Name] = v.Field(i).Bool()
	}
	if longer {
		short := e.tryReq(d, e.short(e.name("short")))
		_, err := short.Renew(e.ctx, e.long())
		e.has["LongerTTL"] = !errors.Is(err, errors.ErrUnsupported)
		e.release(short)
	}
}

// open returns a new participant, closed when the test ends.
func (e *env) open() driver.Driver {
	e.Helper()
	d := e.store.Open(e.TB)
	e.Cleanup(func() {
		if err := d.Close(); err != nil {
			e.Logf("Close: %v", err)
		}
	})
	return d
}

// name returns a name that no other test uses.
func (e *env) name(s string) string { return e.prefix + s }

// long is the TTL of leases that must not expire during the test, and the time
// that nothing takes unless it hangs.
func (e *env) long() time.Duration { return e.h.long }

// request returns a new attempt to get name for long.
func (e *env) request(name string) *driver.Request {
	return &driver.Request{
		Name: name, Lease: rand.Text(), TTL: e.long(),
		Holder: &driver.Holder{Who: "drivertest", Host: "here", PID: 7, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		Why:    "conformance",
	}
}

// short returns a new attempt to get name for Harness.TTL.
func (e *env) short(name string) *driver.Request {
	req := e.request(name)
	req.TTL = e.h.TTL
	return req
}

// try takes name, which must be free.
func (e *env) try(d driver.Driver, name string) driver.Grant {
	e.Helper()
	return e.tryReq(d, e.request(name))
}

func (e *env) tryReq(d driver.Driver, req *driver.Request) driver.Grant {
	e.Helper()
	g, err := d.TryAcquire(e.ctx, req)
	if err != nil || g == nil {
		e.Fatalf("TryAcquire(%.80q) = %v, %v; want a grant", req.Name, g, err)
	}
	e.ends.set(req.Name, g.Token(), g.Since().Add(req.TTL))
	return g
}

// held checks that d cannot have name for itself.
func (e *env) held(d driver.Driver, name string) {
	e.Helper()
	e.refused(d, e.request(name))
}

// free checks that d can have name.
func (e *env) free(d driver.Driver, name string) {
	e.Helper()
	e.release(e.try(d, name))
}

func (e *env) release(g driver.Grant) {
	e.Helper()
	if err := g.Release(e.ctx); err != nil {
		e.inTime(g.Token(), err)
		e.Fatalf("Release of token %d = %v; want nil", g.Token(), err)
	}
}

// ended checks that err, from what happened to a grant, is one of an ended grant.
func (e *env) ended(what string, err error) {
	e.Helper()
	if !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrReleased) {
		e.Errorf("%s = %v; want ErrLost or ErrReleased", what, err)
	}
}

// lost checks that err is ErrLost.
func (e *env) lost(what string, err error) {
	e.Helper()
	if !errors.Is(err, driver.ErrLost) {
		e.Errorf("%s = %v; want ErrLost", what, err)
	}
}

// fake reports whether time costs nothing and no more of it passes than is
// asked for.
func (e *env) fake() bool { return e.h.Slack < e.h.TTL/100 && e.h.Pause < e.h.TTL/100 }

// rounds returns how often to try what goes wrong only now and then.
func (e *env) rounds() int {
	if e.fake() {
		return 60
	}
	return 18
}

// pause lets everybody else go on until they wait for something.
func (e *env) pause() { time.Sleep(e.h.Pause) }

// sleepUntil sleeps until the instant t.
func sleepUntil(t driver.Instant) {
	for d := t.Sub(driver.Now()); d > 0; d = t.Sub(driver.Now()) {
		time.Sleep(d)
	}
}

// expire sleeps until a lease whose TTL began before now has expired for sure.
func (e *env) expire() { time.Sleep(e.h.TTL + e.h.Slack) }

// eventually calls f until it returns nil, or the deadline that is d away is over.
func (e *env) eventually(d time.Duration, f func() error) {
	e.Helper()
	began, end := driver.Now(), e.deadline(d)
	for {
		err := f()
		if err == nil {
			return
		}
		waited := driver.Now().Sub(began)
		if end.over() {
			e.Fatalf("still so after %v: %v", waited, err)
		}
		// What comes too early does so within a TTL. After a restart it may take minutes.
		pause := max(e.h.TTL/500, time.Millisecond, (waited-2*e.h.TTL)/50)
		if waited < d {
			pause = min(pause, d-waited)
		}
		time.Sleep(pause)
	}
}

// show describes a grant that should not be.
func show(g driver.Grant) string {
	if g == nil {
		return "no grant"
	}
	return fmt.Sprintf("a grant with token %d", g.Token())
}
