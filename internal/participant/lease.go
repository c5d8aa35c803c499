// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Lease is one lease from the first request for it to its end. Participant.mu guards the fields that
// change.
type Lease struct {
	p   *Participant
	ref driver.Ref
	ttl time.Duration // that it was asked for with

	state       state
	doubt       bool    // a request for it had no answer: the store may receive it yet
	asked       bool    // a release was sent and had no answer
	ending      uint8   // releases under way: one repeats in the background what another has begun
	others      bool    // somebody was waiting when it was granted
	unconfirmed bool    // an event about it may have been lost
	waiter      *waiter // while it is waited for

	token  uint64
	spare  uint64 // reserved tokens after it
	since  driver.Instant
	term   term   // the present one
	clock  *clock // of the server that counts it
	loss   loss
	wanted *wanted // nil unless the client may keep the lease
}

// wanted is what others who want a name have said.
type wanted struct {
	tell func() // nil before OnWanted
	said bool   // before that
	stop func() // listening for that; nil once that is over
}

// put tells the client that others may want the name.
func (w *wanted) put() {
	if w.said = w.tell == nil; !w.said {
		go w.tell()
	}
}

// state is what the client knows of a lease.
type state uint8

const (
	asking state = iota // it was asked for, or is waited for
	unsure              // it may be held, or in the queue, and its caller has left
	held
	ended // released
)

// forget removes a lease that has ended. The caller holds mu.
func (l *Lease) forget() {
	if l.p.leases[l.ref.Lease] == l {
		delete(l.p.leases, l.ref.Lease)
	}
	if w := l.wanted; w != nil && w.stop != nil {
		l.p.inBackground(w.stop) // it calls the store
		w.stop = nil
	}
}

// hold makes l a lease that is held, as an answer or an event says. The caller holds mu. A message
// about l finds it either waiting or held.
func (l *Lease) hold(a *driver.Answer, t term, since driver.Instant) {
	l.state, l.token, l.spare, l.others, l.since = held, a.Token, a.Spare, a.Waited, since
	if a.Handle != nil {
		l.ref.Handle = a.Handle
	}
	l.term, l.clock = t, l.p.clock(a.Server)
	l.waiter = nil
	if l.wanted != nil && a.Session == nil {
		l.wanted.put()
	}
}

// over returns why a lease is not held any more, as far as the client knows.
func (l *Lease) over() error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	switch {
	case l.state == ended:
		return driver.ErrReleased
	case l.loss.why != nil:
		return l.loss.why
	case l.state == unsure:
		return driver.ErrUncertain
	}
	return nil
}

// ID returns the id by which the store knows the lease.
func (l *Lease) ID() string { return l.ref.Lease }

// Token returns the fencing token, or 0 if the store has none.
func (l *Lease) Token() uint64 { return l.token }

// Reserved returns how many tokens after Token are the lease's too, and whether another participant was waiting
// for the name when it was granted, or may have been. There are none once Guard or Files was called.
func (l *Lease) Reserved() (tokens uint64, others bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.spare, l.others
}

// Lives asks whether a lease that does not expire is still there. The client does not renew such a lease, so it may have
// ended unnoticed.
func (l *Lease) Lives() bool {
	if l.p.caps.Expiry {
		return true
	}
	_, err := l.Renew(l.p.ctx, leastTTL)
	return err == nil
}

// keep makes sure that the lease is not handed over.
func (l *Lease) keep() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.spare = 0
}

// Since returns the latest instant that is certainly not after the start of the first TTL.
func (l *Lease) Since() driver.Instant { return l.since }

// late reports whether nothing is left of the TTL with which the lease was granted.
func (l *Lease) late() bool {
	return l.p.caps.Expiry && driver.Now() >= l.since.Add(l.ttl-driver.Drift(l.ttl))
}

// Renew makes the TTL start anew, and returns since when it counts. It returns a *driver.LostError if the lease has
// ended, and errors.ErrUnsupported if the store cannot make its TTL longer. After another error the TTL that was
// known before is all that may be trusted.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := l.over(); err != nil {
		return 0, err
	}
	r, err := l.p.store.Renew(ctx, l.ref, ttl)
	heard := driver.Now()
	if err != nil {
		return 0, l.notRenewed(err, r.Clock)
	}
	l.p.mu.Lock()
	if !r.Kept {
		l.term, l.clock = term{sent: r.Since, heard: heard, ttl: ttl}, l.p.clock(r.Server)
	}
	l.p.mu.Unlock()
	l.p.saw(r.Clock, heard)
	return r.Since, nil
}

// notRenewed records that a renewal has failed and returns the error for the caller.
func (l *Lease) notRenewed(err error, c driver.Clock) error {
	f := worded(driver.FailureOf(err))
	if lost := lossOf(f.Err); lost != nil {
		l.p.saw(c, driver.Now()) // a step of the clock may be why the lease is gone
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		l.forget()
		return l.loss.note(lost) // this error stays, whatever the caller asks next
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.term = term{} // the store may have begun to count another one
	return f.Err
}

// end ends the lease at the store, or takes it out of the queue.
//
// The service may receive a request for the lease that was given up long after the end, if it was sent over
// another connection. So End says that there may be such requests.
func (l *Lease) end(ctx context.Context) error {
	p := l.p
	p.mu.Lock()
	if l.state == ended {
		p.mu.Unlock()
		return nil
	}
	if err := ctx.Err(); err != nil { // a store might send the request all the same
		p.mu.Unlock()
		return err
	}
	again := l.asked || l.state == unsure || l.ending > 0
	l.ending++
	how := driver.End{Unsure: l.state == unsure, Doubt: l.doubt}
	l.loss.notify = nil // the holder gives it back
	p.mu.Unlock()
	found, err := p.store.End(ctx, l.ref, how)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.ending--
	// Not before: a late event that grants the name would find no lease and be declined, and the
	// request above find that the lease has ended.
	l.forget()
	if err != nil {
		f := worded(driver.FailureOf(err))
		l.asked = l.asked || f.Maybe
		if lost := lossOf(f.Err); lost != nil {
			return l.loss.note(lost)
		}
		return f.Err
	}
	l.state = ended
	if !found && !again {
		return l.loss.note(&driver.LostError{Reason: driver.Gone})
	}
	return nil
}

// OnWanted makes the participant call f in a goroutine whenever others want the name of a lease that was asked
// for with Keeps, or may have wanted it unheard. That is a hint: it may be late, lost or repeated.
func (l *Lease) OnWanted(f func()) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if w := l.wanted; w != nil {
		if w.tell = f; w.said {
			w.put()
		}
	}
}

// Guards reports whether the store is a driver.Guarder.
func (l *Lease) Guards() bool { _, ok := l.p.store.(driver.Guarder); return ok }

// Guard makes tx, a transaction on the database of the store, fail unless the lease has not ended: see
// driver.Guarder.
func (l *Lease) Guard(ctx context.Context, tx any, end error) error {
	g, ok := l.p.store.(driver.Guarder)
	if !ok {
		return errors.ErrUnsupported
	}
	if end == nil {
		end = l.over()
	}
	l.keep() // the successor would not wait for the end of tx
	return g.Guard(ctx, l.ref, l.token, tx, end)
}

// Inherits reports whether the store is a driver.Inheriter.
func (l *Lease) Inherits() bool { _, ok := l.p.store.(driver.Inheriter); return ok }

// Files returns the files that keep the lease while a child process has them, or nil if the store has none: see
// driver.Inheriter.
func (l *Lease) Files() []*os.File {
	if in, ok := l.p.store.(driver.Inheriter); ok {
		l.keep() // the child would have the lease of a successor as well
		return in.Files(l.ref)
	}
	return nil
}
