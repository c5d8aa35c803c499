// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const requestTimeout = 5 * time.Second

// wire is the way of one client to the service. It loses, repeats, delays and reorders requests, answers and
// events, as the plan says for the time and the client.
type wire struct {
	driver.Basic
	w      *world
	client int
	hear   func(driver.Event)
	closed bool

	session   int // over which events arrive; 0 while there is none
	sessions  int
	reconnect *time.Timer
	ready     chan struct{} // closed when there is one; nil if nobody waits for that
}

var errRefused = errors.New("connection refused")

func (w *wire) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, FIFO: true, CrossHost: true, Expiry: true, Shared: true, Slots: true},
		Queue:      !w.w.plan.Polls, Look: lookFor, Keeps: true, LongerTTL: true,
	}
}

func (w *wire) Listen(f func(driver.Event)) { w.hear = f; w.connect() }

// connect makes a connection for events.
func (w *wire) connect() {
	if w.w.plan.Deaf {
		return
	}
	w.sessions++
	w.session = w.sessions
	if w.ready != nil {
		close(w.ready)
		w.ready = nil
	}
}

// Hear implements driver.Store: all events come over one connection.
func (w *wire) Hear(string) (ready <-chan struct{}, stop func()) {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	switch {
	case w.session != 0, w.w.plan.Deaf:
		return w.Basic.Hear("")
	case w.ready == nil:
		w.ready = make(chan struct{})
	}
	return w.ready, func() {}
}

// cut ends the connection for events. Some time later there is another one, if the service can be reached.
func (w *wire) cut() {
	w.session = 0
	if w.reconnect != nil {
		w.reconnect.Stop()
	}
	w.reconnect = time.AfterFunc(50*time.Millisecond+w.delay(w.dice("connect")), w.again)
}

func (w *wire) again() {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	if w.closed || w.w.over {
		return
	}
	if f := w.w.fault(w.client); f.down || f.silent {
		w.reconnect = time.AfterFunc(100*time.Millisecond+w.delay(w.dice("connect")), w.again)
		return
	}
	if w.connect(); w.session != 0 {
		w.w.deliver(w, driver.Event{Kind: driver.Missed})
	}
}

// delay is how long one message takes.
func (w *wire) delay(r *rand.Rand) time.Duration {
	f := w.w.fault(w.client)
	d := w.w.plan.Far + time.Millisecond + time.Duration(r.Int64N(int64(4*time.Millisecond)))
	if f.slow > 0 {
		d += time.Duration(r.Int64N(int64(f.slow)))
	}
	return d
}

// dice returns the chances of one message. They depend on what it is about and when it is sent, not on which of
// two goroutines that send in the same instant comes first.
func (w *wire) dice(about string) *rand.Rand {
	return rand.New(rand.NewPCG(w.w.plan.Seed^hash(about), uint64(w.w.now())<<8|uint64(w.client)))
}

func chance(r *rand.Rand, p float64) bool { return p > 0 && r.Float64() < p }

// trip is one request and its answer. execute is called when the service receives the request, perhaps twice
// or never. It returns nil when the answer has come.
func (w *wire) trip(ctx context.Context, about string, execute func()) (sent driver.Instant, f *driver.Failure) {
	w.w.standStill(w.client, about)
	sent = driver.Now()
	if err := ctx.Err(); err != nil {
		return sent, &driver.Failure{Err: err}
	}
	done := make(chan *driver.Failure, 2)
	w.w.mu.Lock()
	w.send(done, w.dice(about), execute)
	w.w.mu.Unlock()
	timeout := time.NewTimer(requestTimeout)
	defer timeout.Stop()
	select {
	case f = <-done:
	case <-ctx.Done():
		f = &driver.Failure{Err: ctx.Err(), Maybe: true}
	case <-timeout.C:
		f = &driver.Failure{Err: context.DeadlineExceeded, Maybe: true, Silent: true}
		f.Err = errors.New("no answer")
	}
	w.w.standStill(w.client, fmt.Sprint(about, sent)) // two renewals of one lease may have been answered meanwhile
	return sent, f
}

// send puts a request on its way. The caller holds the world's lock.
func (w *wire) send(done chan *driver.Failure, r *rand.Rand, execute func()) {
	f := w.w.fault(w.client)
	switch {
	case w.closed:
		done <- &driver.Failure{Err: driver.ErrClosed, Lasting: true}
		return
	case f.down:
		done <- &driver.Failure{Err: errRefused, Silent: true}
		return
	case f.silent, chance(r, f.loss):
		return
	}
	arrive := func() {
		w.w.mu.Lock()
		defer w.w.mu.Unlock()
		f := w.w.fault(w.client)
		if f.down || f.silent || w.w.over {
			return
		}
		execute()
		if chance(r, f.loss) {
			return
		}
		time.AfterFunc(w.delay(r), func() { done <- nil })
	}
	time.AfterFunc(w.delay(r), arrive)
	if chance(r, f.twice) {
		time.AfterFunc(w.delay(r)+time.Duration(r.Int64N(int64(time.Second))), arrive)
	}
}

func (w *wire) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	w.w.trace("%d asks %s %v", w.client, req.Why, req.Queue)
	var ans driver.Answer
	var err error
	first := true
	r := *req
	w.w.mu.Lock()
	w.w.whys[r.Lease] = r.Why
	var session any
	if w.session != 0 {
		session = w.w.sessionOf(w)
	}
	w.w.mu.Unlock()
	sent, f := w.trip(ctx, "ask "+r.Why, func() {
		a, e := w.w.service.ask(w.client, &r)
		if first {
			ans, err, first = a, e, false
			if session != nil {
				ans.Session = session
				if s := session.(session_); s.run != w.w.service.run {
					ans.Session = nil
				}
			}
		}
	})
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	if f != nil {
		w.w.doubted[r.Lease] = w.w.doubted[r.Lease] || f.Maybe
		return driver.Answer{}, f
	}
	if err == nil {
		w.w.answered[r.Why] = w.w.now()
	}
	ans.Since, ans.Sent = sent, sent
	return ans, err
}

func (w *wire) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	w.w.trace("%d renews %s %v", w.client, l.Name, ttl)
	var r driver.Renewal
	var err error
	first := true
	sent, f := w.trip(ctx, "renew "+w.w.whose(l.Lease), func() {
		a, e := w.w.service.renew(l, ttl)
		if first {
			r, err, first = a, e, false
		}
	})
	if f != nil {
		return driver.Renewal{}, f
	}
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	r.Since, r.Sent = sent, sent
	return r, err
}

func (w *wire) End(ctx context.Context, l driver.Ref, how driver.End) (found bool, err error) {
	w.w.mu.Lock()
	if w.w.doubted[l.Lease] && !how.Doubt {
		w.w.fail("client %d ends a lease and does not say that a request for it is in doubt", w.client)
	}
	delete(w.w.doubted, l.Lease) // it has been said
	w.w.mu.Unlock()
	w.w.trace("%d ends %s %+v", w.client, l.Name, how)
	first := true
	_, f := w.trip(ctx, "end "+w.w.whose(l.Lease), func() {
		if ok := w.w.service.end(l, how); first {
			found, first = ok, false
		}
	})
	if f != nil {
		return false, f
	}
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return found, nil
}

func (w *wire) Close() error {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	w.closed = true
	if w.reconnect != nil {
		w.reconnect.Stop()
	}
	return nil
}

// session_ is a connection for events to one run of the service.
type session_ struct{ client, number, run int }

func (w *world) sessionOf(of *wire) session_ { return session_{of.client, of.session, w.service.run} }
