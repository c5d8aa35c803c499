// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var sharedQueueTests = []Test{
	{Name: "reader-need-not-wait-for-readers", Needs: []string{"Shared", "Queuer"}, run: readerFree},
	{Name: "writer-gets-the-name-from-the-last-reader", Needs: []string{"Shared", "Queuer"}, run: lastReader},
	{Name: "readers-that-follow-each-other-are-granted-together", Needs: []string{"Shared", "Queuer"}, run: readersFollow},
	{Name: "readers-and-writers-are-served-in-order", Needs: []string{"Shared", "Queuer", "FIFO"}, run: readersInOrder},
	{Name: "new-readers-do-not-overtake-a-waiting-writer", Needs: []string{"Shared", "Queuer", "FIFO"}, run: noReaderOvertakes},
	{Name: "writer-is-not-starved-by-a-stream-of-readers", Needs: []string{"Shared", "Queuer", "FIFO", "Inspector"}, run: noStarvation},
	{Name: "writer-that-gives-up-lets-readers-in", Needs: []string{"Shared", "Queuer", "FIFO"}, run: writerGivesUp},
	{Name: "crashed-writer-in-the-queue-lets-readers-in", Needs: []string{"Shared", "Queuer", "FIFO", "Crash"}, run: writerCrashes},
	{Name: "reader-that-gives-up-leaves-no-ghost", Needs: []string{"Shared", "Queuer"}, run: readerGivesUp},
	{Name: "writer-wakes-when-the-last-reader-expires", Needs: []string{"Shared", "Queuer", "Expiry"}, run: lastReaderExpires},
	{Name: "readers-wake-when-the-writer-expires", Needs: []string{"Shared", "Queuer", "Expiry"}, run: writerExpires},
	{Name: "writer-wakes-on-break-of-the-last-reader", Needs: []string{"Shared", "Queuer", "Inspector"}, run: lastReaderBroken},
}

func readerFree(e *env) {
	name := e.name("deploy")
	first := e.startWait(e.open(), e.reader(name)).granted(e.h.Slack)
	second := e.startWait(e.open(), e.reader(name)).granted(e.h.Slack)
	third := e.tryReq(e.open(), e.reader(name))
	for _, g := range []driver.Grant{second, first, third} {
		e.held(e.open(), name)
		e.release(g)
	}
	e.free(e.open(), name)
}

func lastReader(e *env) {
	name := e.name("deploy")
	readers := []driver.Grant{e.tryReq(e.open(), e.reader(name)), e.tryReq(e.open(), e.reader(name))}
	e.grantedInSteps(readers, []*call{e.wait(e.open(), e.request(name))})
	e.free(e.open(), name)
}

// waiting has a waiter of a new participant for each of reqs, in that order.
func (e *env) waiting(reqs ...*driver.Request) []*call {
	ws := make([]*call, len(reqs))
	for i, req := range reqs {
		ws[i] = e.wait(e.open(), req)
	}
	return ws
}

func readersFollow(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	ws := e.waiting(e.reader(name), e.reader(name), e.reader(name))
	e.grantedInSteps([]driver.Grant{g}, ws)
	e.free(e.open(), name)
}

func readersInOrder(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	ws := e.waiting(e.reader(name), e.request(name), e.reader(name), e.reader(name),
		e.request(name), e.request(name), e.reader(name))
	e.grantedInSteps([]driver.Grant{g}, ws[:1], ws[1:2], ws[2:4], ws[4:5], ws[5:6], ws[6:])
	e.free(e.open(), name)
}

func noReaderOvertakes(e *env) {
	name := e.name("deploy")
	a, b := e.open(), e.open()
	g := e.tryReq(a, e.reader(name))
	writer := e.wait(e.open(), e.request(name))
	e.refused(a, e.reader(name))
	e.refused(b, e.reader(name))
	reader := e.wait(b, e.reader(name))
	e.grantedInSteps([]driver.Grant{g}, []*call{writer}, []*call{reader})
	e.free(a, name)
}

// noStarvation has a stream of readers of which one holds the name at any time, and a
// writer among them. No reader that comes after the writer may get the name before the
// writer has released it.
func noStarvation(e *env) {
	name := e.name("deploy")
	var phase atomic.Int32 // odd from when a writer waits until it is about to release
	ctx, stop := context.WithCancel(e.ctx)
	var all sync.WaitGroup
	for i := range 6 {
		d := e.open()
		all.Go(func() {
			time.Sleep(time.Duration(i) * e.h.Pause / 3)
			for ctx.Err() == nil {
				came := phase.Load()
				g, err := d.(driver.Queuer).Acquire(ctx, e.reader(name))
				if err != nil {
					if ctx.Err() == nil {
						e.Errorf("Acquire of a reader = %v", err)
					} else if g != nil {
						g.Release(e.ctx)
					}
					return
				}
				if came%2 == 1 && phase.Load() == came {
					e.Error("a reader that came after a waiting writer got the name before it")
					stop()
				}
				time.Sleep(2 * e.h.Pause)
				if err := g.Release(e.ctx); err != nil {
					e.Errorf("Release of a reader = %v", err)
					return
				}
			}
		})
	}
	defer all.Wait()
	defer stop()
	for range 3 {
		time.Sleep(4 * e.h.Pause)
		req := e.request(name)
		req.Why = toWrite
		w := e.wait(e.open(), req)
		e.writerWaits(name, w.done)
		phase.Add(1)
		g := w.granted(e.h.Slack + 10*e.h.Pause)
		e.pause()
		phase.Add(1)
		e.release(g)
	}
}

// toWrite is why a writer waits among many readers.
const toWrite = "to write"

// writerWaits returns when a writer stands in the store's queue, or done is closed.
func (e *env) writerWaits(name string, done <-chan struct{}) {
	e.Helper()
	d, limit := e.open(), e.soon()
	if !e.fake() {
		limit *= 5 // readers keep the machine busy
	}
	e.eventually(limit, func() error {
		info, err := d.(driver.Inspector).Inspect(e.ctx, name)
		if err != nil { // also an error of a busy server
			return err
		}
		for _, w := range info.Waiters {
			if w.Why == toWrite {
				return nil
			}
		}
		if closed(done, 0) {
			return nil
		}
		return errors.New("no writer is in the queue")
	})
}

func writerGivesUp(e *env) {
	name := e.name("deploy")
	g := e.tryReq(e.open(), e.reader(name))
	ws := e.waiting(e.request(name), e.reader(name), e.reader(name), e.request(name), e.reader(name))
	ws[1].waits()
	ws[0].cancelled()
	held := []driver.Grant{g, ws[1].granted(e.h.Slack), ws[2].granted(e.h.Slack)}
	e.grantedInSteps(held, ws[3:4], ws[4:])
	e.free(e.open(), name)
}

func writerCrashes(e *env) {
	name := e.name("deploy")
	dead := e.open()
	g := e.tryReq(e.open(), e.reader(name))
	e.wait(dead, e.brief(e.request(name)))
	w := e.wait(e.open(), e.reader(name))
	w.waits()
	limit := e.crash(dead)
	next := w.granted(limit)
	e.release(g)
	e.release(next)
	e.free(e.open(), name)
}

func readerGivesUp(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	ws := e.waiting(e.reader(name), e.reader(name))
	ws[0].cancelled()
	e.release(g)
	e.release(ws[1].granted(e.h.Slack))
	e.free(e.open(), name)
}

func lastReaderExpires(e *env) {
	name := e.name("deploy")
	early := e.tryReq(e.open(), e.brief(e.reader(name)))
	sleepUntil(early.Since().Add(e.h.TTL / 2))
	last := e.tryReq(e.open(), e.brief(e.reader(name)))
	w := e.wait(e.open(), e.request(name))
	e.wakes(w, last.Since().Add(e.h.TTL))
}

func writerExpires(e *env) {
	name := e.name("deploy")
	g := e.tryReq(e.open(), e.short(name))
	ws := e.waiting(e.reader(name), e.reader(name))
	free := g.Since().Add(e.h.TTL)
	second := ws[1].granted(free.Sub(driver.Now()) + e.h.TTL + e.h.Slack)
	e.wakes(ws[0], free)
	e.release(second)
	e.free(e.open(), name)
}

func lastReaderBroken(e *env) {
	name := e.name("deploy")
	g := e.tryReq(e.open(), e.reader(name))
	e.letGo(g)
	w := e.wait(e.open(), e.request(name))
	e.breakHolder(e.open(), name)
	e.release(w.granted(e.h.Slack))
	e.free(e.open(), name)
}
