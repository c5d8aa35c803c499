// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// world is one run of a plan, in a bubble of fake time.
type world struct {
	plan  *plan
	begin time.Time

	mu      sync.Mutex
	service *service
	wires   []*wire
	halves  []*participant.Participant
	pawls   []*pawl.Client
	faults  []conditions // by client
	paused  []time.Duration
	pauses  []fault // so far
	over    bool

	trusted  []*trusted
	owned    map[string]bool          // calls whose lease somebody wants or has, by Why
	waiting  map[string]*call         // by what their requests have as Why
	broken   map[string]time.Duration // when a lease was ended by force, by Why
	grants   map[string]time.Duration // when the service granted a lease
	toldLost map[string]time.Duration // when the client was told that a lease has ended
	never    map[string]error         // calls whose error says that nothing was recorded
	once     map[string]bool          // calls of which something was recorded
	doubted  map[string]bool          // leases for which a request had no answer
	answered map[string]time.Duration // when a call was answered last
	silent   []time.Duration          // since when a client has no answers; 0: it has
	idle     map[string]time.Duration // since when a name has no use, or a lease no owner
	whys     map[string]string        // of leases
	tokens   map[int]pawl.Token       // the last one that was seen, by name
	failures []string
	log      []string
}

// conditions are what is wrong with the way of a client.
type conditions struct {
	loss, twice    float64
	slow           time.Duration
	down, silent   bool
	lossOfMessages float64 // events are lost
}

// trusted is a lease that a client has got.
type trusted struct {
	*pawl.Lease
	client int
	op     op
	why    string
	since  time.Duration
}

// call is one of Acquire.
type call struct {
	client int
	name   string
	op     op
	began  time.Duration
}

func (w *world) now() time.Duration { return time.Since(w.begin) }

func (w *world) fault(client int) conditions { return w.faults[client] }

// fail records a violation.
func (w *world) fail(format string, args ...any) {
	if len(w.failures) < 5 {
		w.failures = append(w.failures, fmt.Sprintf("%v: ", w.now())+fmt.Sprintf(format, args...))
	}
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%12v ", w.now())+fmt.Sprintf(format, args...))
}

// run runs a plan and returns the world at its end.
func run(p *plan) *world {
	w := &world{plan: p, begin: time.Now(), owned: make(map[string]bool), waiting: make(map[string]*call), broken: make(map[string]time.Duration), grants: make(map[string]time.Duration), toldLost: make(map[string]time.Duration), never: make(map[string]error), once: make(map[string]bool), doubted: make(map[string]bool), answered: make(map[string]time.Duration),
		idle: make(map[string]time.Duration), tokens: make(map[int]pawl.Token), whys: make(map[string]string)}
	w.service = newService(w)
	w.service.maxTTL = p.TTL
	clients := 0
	for _, s := range p.Scripts {
		clients = max(clients, s.Client+1)
	}
	w.faults, w.paused, w.silent = make([]conditions, clients), make([]time.Duration, clients), make([]time.Duration, clients)
	for c := range clients {
		wi := &wire{w: w, client: c}
		w.wires = append(w.wires, wi)
		client, err := pawl.New(wi, &pawl.Options{TTL: p.TTL, Logger: slog.New(slog.DiscardHandler), Holder: pawl.Holder{Who: fmt.Sprint("client ", c), User: "u", Host: "h", PID: c + 1, Command: "c"}})
		if err != nil {
			panic(err)
		}
		w.pawls = append(w.pawls, client)
		w.halves = append(w.halves, halfOf(client))
	}
	for _, f := range p.Faults {
		if f.Client < clients {
			w.schedule(f)
		}
	}
	stop := make(chan struct{})
	var watch, work sync.WaitGroup
	watch.Go(func() { w.watch(stop) })
	for i, s := range p.Scripts {
		work.Go(func() { w.follow(i, s) })
	}
	work.Wait()
	for _, c := range w.pawls {
		work.Go(func() { _ = c.Close() })
	}
	work.Wait()
	close(stop)
	watch.Wait()
	w.leftovers()
	return w
}

// halfOf returns the participant of a client.
func halfOf(c *pawl.Client) *participant.Participant {
	return (*participant.Participant)(reflect.ValueOf(c).Elem().FieldByName("core").Elem().FieldByName("participant").UnsafePointer())
}

// schedule makes a fault happen.
func (w *world) schedule(f fault) {
	each := func(change func(c *conditions)) {
		for i := range w.faults {
			if f.Client < 0 || f.Client == i {
				change(&w.faults[i])
			}
		}
	}
	at := w.in
	lasting := func(set, unset func(c *conditions)) {
		at(f.At, func() { w.note("%s begins", f.What); each(set) })
		at(f.At+f.For, func() { w.note("%s ends", f.What); each(unset) })
	}
	switch f.What {
	case "loss":
		lasting(func(c *conditions) { c.loss += f.Much * 0.8 }, func(c *conditions) { c.loss = 0 })
	case "twice":
		lasting(func(c *conditions) { c.twice = f.Much }, func(c *conditions) { c.twice = 0 })
	case "slow":
		slow := time.Duration(f.Much * float64(time.Second))
		if w.plan.Gentle {
			// A claim is for a second, of which half may be gone when the first renewal is sent.
			slow = time.Duration(f.Much * float64(min(150*time.Millisecond, w.plan.TTL/7-w.plan.Far)))
		}
		lasting(func(c *conditions) { c.slow = slow }, func(c *conditions) { c.slow = 0 })
	case "down":
		lasting(func(c *conditions) { c.down = true }, func(c *conditions) { c.down = false })
		at(f.At, func() { w.cut(f.Client) })
	case "silent":
		lasting(func(c *conditions) { c.silent = true }, func(c *conditions) { c.silent = false })
		for i := range w.faults {
			if f.Client < 0 || f.Client == i {
				at(f.At, func() { w.silent[i] = w.now() })
				at(f.At+f.For, func() { w.silent[i] = 0 })
			}
		}
	case "mute", "loss-events":
		lasting(func(c *conditions) { c.lossOfMessages = f.Much }, func(c *conditions) { c.lossOfMessages = 0 })
	case "deaf":
		at(f.At, func() { w.note("cut"); w.cut(f.Client) })
	case "pause":
		at(f.At, func() {
			w.note("client %d stands still for %v", f.Client, f.For)
			w.paused[f.Client] = max(w.paused[f.Client], w.now()+f.For)
			w.pauses = append(w.pauses, f)
			began := driver.Now()
			at(f.For, func() { w.halves[f.Client].StoodStill(began) })
		})
	case "restart", "empty":
		at(f.At, func() {
			w.note("%s", f.What)
			w.service.restart(f.What == "empty", time.Duration(f.Much*float64(time.Second)))
			w.cut(-1)
		})
	case "break":
		at(f.At, func() {
			w.note("break")
			for _, name := range slices.Sorted(maps.Keys(w.service.names)) {
				w.service.breakAll(name)
			}
		})
	case "break-claim":
		at(f.At, func() { w.note("breaks the next hand-over"); w.service.breaks = true })
	case "back":
		at(f.At, func() { w.service.offset -= time.Duration(f.Much * float64(time.Second)) })
	}
}

// in calls do after a while.
func (w *world) in(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

func (w *world) cut(client int) {
	for i, wi := range w.wires {
		if client < 0 || client == i {
			wi.cut()
		}
	}
}

// standStill blocks while the process of a client does not run. What goes on goes on one after the other, in an order
// that depends on what it is about.
func (w *world) standStill(client int, about string) {
	for {
		w.mu.Lock()
		left := w.paused[client] - w.now()
		w.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left + time.Duration(hash(about)%1000))
	}
}

func hash(about string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(about))
	return h.Sum64()
}

// tell sends an event to a client. The caller holds mu.
func (w *world) tell(client int, e driver.Event) {
	wi := w.wires[client]
	if wi.session == 0 || chance(wi.dice("lost "+w.about(e)), w.faults[client].lossOfMessages) || w.faults[client].silent {
		return
	}
	if e.Kind == driver.Granted {
		e.Grant.Session = w.sessionOf(wi)
	}
	w.deliver(wi, e)
}

// about names an event. The caller holds mu.
func (w *world) about(e driver.Event) string { return fmt.Sprint(e.Kind, e.Name, w.whys[e.Lease]) }

// deliver hands an event to a client after a while, if its connection lasts. The caller holds mu.
func (w *world) deliver(wi *wire, e driver.Event) {
	about := w.about(e)
	session, r := wi.session, wi.dice(about)
	if chance(r, w.faults[wi.client].twice) {
		time.AfterFunc(wi.delay(r)+time.Duration(r.Int64N(int64(time.Second))), func() { wi.hear(e) })
	}
	time.AfterFunc(wi.delay(r), func() {
		w.standStill(wi.client, about)
		w.mu.Lock()
		gone := wi.session != session && r.IntN(2) == 0 || wi.closed // else it was read before the connection ended
		w.mu.Unlock()
		if gone {
			return
		}
		e := e
		e.Heard = driver.Now()
		wi.hear(e)
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Kind == driver.Lost {
			w.toldLost[e.Lease] = w.now()
		}
	})
}

// recorded is called when the service records a lease or a place. The caller holds mu.
func (w *world) recorded(l *serviceLease) {
	w.once[l.req.Why] = true
	if err := w.never[l.req.Why]; err != nil {
		w.fail("%s was recorded after its call had returned %v", l.req.Why, err)
	}
}

// follow carries out a script.
func (w *world) follow(number int, s script) {
	for i, o := range s.Ops {
		time.Sleep(o.Think + time.Duration(number)*time.Microsecond)
		w.operate(s.Client, fmt.Sprintf("%d.%d of client %d", number, i, s.Client), o)
	}
}

func (o op) options(why string) []pawl.Option {
	opts := []pawl.Option{pawl.Why(why)}
	if o.Shared {
		opts = append(opts, pawl.Shared())
	}
	if o.Slots > 0 {
		opts = append(opts, pawl.Slots(o.Slots))
	}
	if o.NoRenew {
		opts = append(opts, pawl.NoRenew())
	}
	if o.MinHold > 0 {
		opts = append(opts, pawl.MinHold(o.MinHold))
	}
	if o.KeepIdle > 0 {
		opts = append(opts, pawl.KeepIdle(o.KeepIdle))
	}
	return opts
}

func (w *world) operate(client int, why string, o op) {
	name := fmt.Sprint("name", o.Name)
	w.mu.Lock()
	w.owned[why] = true
	w.mu.Unlock()
	l, err := w.acquire(client, name, why, o)
	if err != nil {
		w.refused(client, why, o, err)
		return
	}
	t := &trusted{Lease: l, client: client, op: o, why: why, since: w.now()}
	w.granted(t)
	if o.Extend > 0 {
		_ = l.Extend(context.Background(), o.Extend)
	}
	select {
	case <-time.After(o.Hold):
	case <-l.Done():
	}
	w.mu.Lock()
	lost := l.Err() != nil
	if lost && w.plan.Gentle && w.broken[why] == 0 && o.NoRenew && w.now()-t.since < w.plan.TTL/2 {
		w.fail("%s: a lease that nobody renews was lost after %v", why, w.now()-t.since)
	}
	if lost && w.plan.Gentle && w.broken[why] == 0 && !o.NoRenew {
		w.fail("%s: a lease whose renewals were answered was lost: %v", why, l.Err())
	}
	w.trusted = slices.DeleteFunc(w.trusted, func(other *trusted) bool { return other == t })
	w.note("%s releases (%v)", why, l.Err())
	w.mu.Unlock()
	_ = l.Release(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.owned, why)
}

func (w *world) acquire(client int, name, why string, o op) (*pawl.Lease, error) {
	c := w.pawls[client]
	if o.Patience == 0 {
		return c.TryAcquire(context.Background(), name, o.options(why)...)
	}
	w.mu.Lock()
	w.waiting[why] = &call{client, name, o, w.now()}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), o.Patience)
	defer cancel()
	l, err := c.Acquire(ctx, name, o.options(why)...)
	w.mu.Lock()
	delete(w.waiting, why)
	w.mu.Unlock()
	return l, err
}

var outcomes = []error{pawl.ErrHeld, pawl.ErrLost, pawl.ErrReleased, pawl.ErrUnavailable, pawl.ErrUncertain}

// refused checks the error of a call.
func (w *world) refused(client int, why string, o op, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s: %v", why, err)
	delete(w.owned, why)
	n := 0
	for _, outcome := range outcomes {
		if errors.Is(err, outcome) {
			n++
		}
	}
	if n > 1 {
		w.fail("%s: %v is %d outcomes", why, err, n)
	}
	if o.Patience > 0 {
		w.gaveUp(client, why, err)
		return
	}
	if !errors.Is(err, pawl.ErrUnavailable) {
		return
	}
	w.never[why] = err
	if w.once[why] && !strings.Contains(err.Error(), "longer than its TTL") { // which was given back
		w.fail("%s: %v, but it was recorded", why, err)
	}
}

// gaveUp checks the error of Acquire: one that has been answered goes on until its context ends, or until it has
// had no answer for a whole TTL. The caller holds mu.
func (w *world) gaveUp(client int, why string, err error) {
	var silent *driver.SilentError
	var slots *pawl.SlotsError
	last, answered := w.answered[why]
	ran := w.now() - last
	for _, f := range w.pauses {
		if f.Client == client {
			ran -= max(0, min(w.now(), f.At+f.For)-max(last, f.At)-time.Second)
		}
	}
	switch {
	case !answered, errors.Is(err, context.DeadlineExceeded), errors.As(err, &slots):
	case !errors.As(err, &silent):
		w.fail("%s: %v, although it had been answered", why, err)
	case ran < w.plan.TTL:
		w.fail("%s: %v, although it was answered %v ago and ran for %v of that", why, err, w.now()-last, ran)
	}
}

// whose returns the Why of a lease.
func (w *world) whose(lease string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whys[lease]
}

// trace notes what happens in a wire, if the environment has TRACE.
func (w *world) trace(format string, args ...any) {
	if os.Getenv("TRACE") != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note(format, args...)
	}
}
