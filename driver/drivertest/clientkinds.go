// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
)

// Tests of package pawl with leases that are not exclusive.
var clientKindTests = []Test{
	{Name: "client-readers-share", Needs: []string{"Shared"}, run: clientReaders},
	{Name: "client-writer-is-not-starved-by-readers", Needs: []string{"Shared", "Queuer", "FIFO", "Inspector"},
		run: func(e *env) { e.writerAmong(12, 2) }},
	{Name: "client-writer-gets-in-between-a-hundred-readers", Needs: []string{"Shared", "Queuer", "FIFO", "Inspector"},
		run: func(e *env) { e.writerAmong(100, 10) }},
	{Name: "client-downgrade-lets-readers-in", Needs: downgrader, run: clientDowngrade},
	{Name: "client-slots-are-shared-out", Needs: []string{"Slots"}, run: clientSlots},
	{Name: "clients-of-every-kind-never-overlap-under-random-faults", Needs: []string{"Shared"}, run: faultKinds},
}

func clientReaders(e *env) {
	a, b, name := e.briefClient(), e.briefClient(), e.name("deploy")
	first, second := e.get(a, name, pawl.Shared()), e.get(b, name, pawl.Shared())
	third := e.queue(a, name, pawl.Shared()).got(e.soon()) // in the same client
	e.busy(b, name)
	writer := e.queue(a, name)
	time.Sleep(e.h.TTL)
	for _, l := range []*pawl.Lease{first, second, third} {
		e.alive(l)
		writer.waits()
		e.give(l)
	}
	l := writer.got(e.soon())
	if _, err := b.TryAcquire(e.ctx, name, pawl.Shared()); !errors.Is(err, pawl.ErrHeld) {
		e.Errorf("TryAcquire of a reader beside a writer = %v; want ErrHeld", err)
	}
	reader := e.queue(b, name, pawl.Shared())
	reader.waits()
	e.give(l)
	e.give(reader.got(e.soon()))
}

// writerAmong has a stream of readers of some clients, the writer's own among them,
// share a name without a gap. No reader that comes after the writer gets it first: so
// the writer waits only for those that hold the name already. How long that takes is
// logged, since it depends on the machine too.
func (e *env) writerAmong(readers, clients int) {
	name := e.name("deploy")
	var cs []*pawl.Client
	for range clients {
		cs = append(cs, e.client())
	}
	// With shorter holds the stream overloads the machine: all readers have to take their turns
	// while one of them holds the name.
	e.give(e.get(cs[0], name))
	began := time.Now()
	for range 4 {
		e.give(e.get(cs[0], name))
	}
	pair := min(time.Since(began)/4, 10*time.Millisecond)
	hold := max(2*e.h.Pause, time.Duration(readers)*max(pair, 2*time.Millisecond))
	var phase atomic.Int32 // odd from when a writer waits until it is about to release
	var reads atomic.Int32
	ctx, stop := context.WithCancel(e.ctx)
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			time.Sleep(hold * time.Duration(i) / time.Duration(readers))
			for ctx.Err() == nil {
				came := phase.Load()
				l, err := cs[i%clients].Acquire(ctx, name, pawl.Shared())
				switch {
				case err != nil && ctx.Err() != nil:
					return
				case errors.Is(err, pawl.ErrUnavailable) && e.pulse.late() > tooSlow: // and so for readers
					continue
				case err != nil:
					e.Errorf("Acquire of a reader = %v", err)
					return
				}
				reads.Add(1)
				if came%2 == 1 && phase.Load() == came {
					e.Error("a reader that came after a waiting writer got the name before it")
					stop()
				}
				time.Sleep(hold)
				l.Release(e.ctx)
			}
		})
	}
	defer all.Wait()
	defer stop()
	for range 3 {
		before := reads.Load()
		e.eventually(e.long(), func() error {
			if n := reads.Load() - before; n < int32(readers) {
				return fmt.Errorf("the stream does not flow: %d of %d readers", n, readers)
			}
			return nil
		})
		began := time.Now()
		w := e.queue(cs[0], name, pawl.Why(toWrite))
		e.writerWaits(name, w.done) // it may have to wait for the answers to readers first
		phase.Add(1)
		queued := reads.Load()
		l := w.got(e.long())
		e.Logf("the writer has waited %v, which is %.2f times as long as a reader holds; %d of %d readers came in meanwhile",
			w.at.Sub(began), float64(w.at.Sub(began))/float64(hold), reads.Load()-queued, readers)
		e.pause()
		phase.Add(1)
		e.give(l)
	}
}

func clientDowngrade(e *env) {
	a, b, name := e.client(), e.client(), e.name("deploy")
	l := e.get(a, name)
	ws := []*acquiring{e.queue(b, name, pawl.Shared()), e.queue(a, name, pawl.Shared())}
	ws[0].waits()
	ws[1].waits()
	own, err := l.Downgrade(e.ctx)
	if err != nil {
		e.Fatalf("Downgrade = %v; want nil", err)
	}
	readers := []*pawl.Lease{ws[0].got(e.soon()), ws[1].got(e.soon())}
	if own.Err() != nil || !errors.Is(l.Err(), pawl.ErrReleased) {
		e.Errorf("after Downgrade: %v, and %v for the exclusive lease; want nil and ErrReleased", own.Err(), l.Err())
	}
	e.busy(b, name)
	e.give(own)
	e.busy(b, name)
	e.give(readers[0])
	e.give(readers[1])
	e.give(e.get(b, name))
}

func clientSlots(e *env) {
	a, b, name := e.client(), e.client(), e.name("deploy")
	var leases []*pawl.Lease
	for _, c := range []*pawl.Client{a, b, a} {
		leases = append(leases, e.queue(c, name, pawl.Slots(3)).got(e.soon()))
	}
	if l, err := b.TryAcquire(e.ctx, name, pawl.Slots(3)); !errors.Is(err, pawl.ErrHeld) {
		e.Errorf("TryAcquire of a fourth of 3 slots = %s, %v; want ErrHeld", showLease(l), err)
	}
	for what, acquire := range map[string]func(context.Context, string, ...pawl.Option) (*pawl.Lease, error){
		"Acquire": a.Acquire, "TryAcquire": b.TryAcquire,
	} {
		var slots *pawl.SlotsError
		if _, err := acquire(e.ctx, name, pawl.Slots(2)); !errors.As(err, &slots) || slots.Held != 3 || slots.Wanted != 2 {
			e.Errorf("%s of one of 2 slots = %v; want a *SlotsError with 3 and 2", what, err)
		}
	}
	w := e.queue(a, name, pawl.Slots(3))
	w.waits()
	e.give(leases[1])
	leases[1] = w.got(e.soon())
	for _, l := range leases {
		e.give(l)
	}
	e.give(e.get(b, name))
}

// faultKinds is faultChaos with leases of every kind.
func faultKinds(e *env) {
	w := &kindWitness{e: e, downgrades: e.missing(downgrader) == ""}
	ctx, cancel := context.WithTimeout(e.ctx, 4*e.h.TTL)
	defer cancel()
	var all sync.WaitGroup
	var plans []*Faulty
	for range 3 {
		c, f := e.faultyClient(e.randomRules()...)
		plans = append(plans, f)
		all.Go(func() {
			for sleep(ctx, rand.N(3*e.h.TTL)) {
				f.Cut()
				sleep(ctx, rand.N(e.h.TTL))
				f.Heal()
			}
		})
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					w.holdAtRandom(ctx, c)
				}
			})
		}
	}
	all.Wait()
	for _, f := range plans {
		f.Clear()
	}
	e.give(e.queue(e.client(), e.name("deploy")).got(2*e.h.TTL + e.soon()))
}

// kindWitness sees every lease on one name and finds leases that are trusted at
// a time and must not be.
type kindWitness struct {
	e          *env
	downgrades bool // the store can

	mu   sync.Mutex
	live []seenLease
}

type seenLease struct {
	*pawl.Lease
	slots  int // 0 unless it is a slot
	shared bool
}

// saw is like witness.saw: it reports no error falsely. Of two leases that do not fit,
// one has ended by the time at which it is checked, or both were trusted at that
// moment.
func (w *kindWitness) saw(l seenLease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var live []seenLease
	for _, old := range w.live {
		if old.Err() == nil {
			live = append(live, old)
		}
	}
	if l.Err() != nil {
		w.live = live
		return
	}
	for _, old := range live {
		together := old.shared && l.shared || old.slots > 0 && old.slots == l.slots
		if !together {
			w.e.Errorf("two leases are trusted at a time: tokens %d (shared %v, slots %d) and %d (shared %v, slots %d)",
				old.Token(), old.shared, old.slots, l.Token(), l.shared, l.slots)
		}
	}
	w.live = append(live, l)
	if l.slots > 0 && len(w.live) > l.slots {
		w.e.Errorf("%d leases are trusted at a time on a name with %d slots", len(w.live), l.slots)
	}
}

func (w *kindWitness) holdAtRandom(ctx context.Context, c *pawl.Client) {
	e := w.e
	waiting, cancel := context.WithTimeout(ctx, rand.N(e.h.TTL))
	defer cancel()
	var seen seenLease
	var opts []pawl.Option
	switch n := rand.IntN(4); {
	case n < 2:
		seen.shared, opts = true, []pawl.Option{pawl.Shared()}
	case n == 2 && c.Guarantees().Slots:
		seen.slots, opts = 2, []pawl.Option{pawl.Slots(2)}
	}
	l, err := c.Acquire(waiting, e.name("deploy"), opts...)
	if err != nil {
		sleep(ctx, rand.N(e.h.TTL/10))
		return
	}
	seen.Lease = l
	w.saw(seen)
	select {
	case <-l.Done():
	case <-time.After(rand.N(e.h.TTL)):
	}
	if w.downgrades && !seen.shared && seen.slots == 0 && rand.IntN(3) == 0 {
		if shared, err := l.Downgrade(ctx); err == nil {
			w.saw(seenLease{Lease: shared, shared: true})
			sleep(ctx, rand.N(e.h.TTL/4))
			shared.Release(ctx)
		}
	}
	l.Release(ctx)
}
