// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Lease is one lease from the first request for it to its end. Participant.mu guards the fields that
// change.
type Lease struct {
	p   *Participant
	ref driver.Ref
	ttl time.Duration // of the request

	state       state
	doubt       bool    // a request for it had no answer, and may still reach the store
	asked       bool    // a release was sent and had no answer
	ending      uint8   // releases under way: the background may repeat one that a caller has begun
	others      bool    // another participant waited when it was granted
	unconfirmed bool    // an event about it may have been lost
	waiter      *waiter // nil unless a call waits for it

	token  uint64
	spare  uint64 // reserved tokens after token
	since  driver.Instant
	term   term              // the present one
	clock  *clock            // of the server that counts term
	lost   *driver.LostError // the first loss; nil while none is known
	onLost func(error)       // nil before OnLost, and once the holder releases the lease or knows of the loss
	wanted *wanted           // nil unless the client may keep the lease
}

// wanted passes on that others want the name of a lease.
type wanted struct {
	tell func() // nil before OnWanted
	said bool   // others wanted the name before OnWanted
	stop func() // ends the subscription; nil after that
}

// put notes that others may want the name.
func (w *wanted) put() {
	if w.said = w.tell == nil; !w.said {
		go w.tell()
	}
}

// state is what the client knows of a lease.
type state uint8

const (
	asking state = iota // requested, or in the queue
	unsure              // the caller has left; the lease may be held, or in the queue
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

// over returns why the lease is no longer held, or nil as long as the client knows of no end.
func (l *Lease) over() error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	switch {
	case l.state == ended:
		return driver.ErrReleased
	case l.lost != nil:
		return l.lost
	case l.state == unsure:
		return driver.ErrUncertain
	}
	return nil
}

// ID returns the id by which the store knows the lease.
func (l *Lease) ID() string { return l.ref.Lease }

// Token returns the fencing token, or 0 if the store has none.
func (l *Lease) Token() uint64 { return l.token }

// Reserved returns how many tokens after Token are reserved for the lease, and whether another participant waited for the name when the lease was granted, or may have.
func (l *Lease) Reserved() (tokens uint64, others bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.spare, l.others
}

// Lives asks the store whether a lease that does not expire is still there. The client does not renew such a lease, and
// so may not have noticed its end.
func (l *Lease) Lives() bool {
	if l.p.caps.Expiry {
		return true
	}
	_, err := l.Renew(l.p.ctx, leastTTL)
	return err == nil
}

// Since returns the instant from which the first TTL counts: it began then or later.
func (l *Lease) Since() driver.Instant { return l.since }

// Renew begins the TTL anew, and returns the instant from which it counts. It returns a *driver.LostError if the lease
// has ended, and errors.ErrUnsupported if the store cannot make its TTL longer. After another error the caller may
// trust only the TTL before.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := l.over(); err != nil {
		return 0, err
	}
	r, err := l.p.store.Renew(ctx, l.ref, ttl)
	heard := cmp.Or(r.Heard, driver.Now())
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
	lost := lossOf(err)
	if lost != nil {
		l.p.saw(c, driver.Now()) // a step of the clock may be the cause
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if lost != nil {
		l.forget()
		return l.note(lost) // the first cause stays
	}
	l.term = term{} // unknown: the store may have renewed it
	return Worded(driver.FailureOf(err))
}

// end ends the lease at the store, or takes it out of the queue.
//
// A request for the lease that was given up may reach the service long after the end, over another connection.
// driver.End says so with Doubt.
func (l *Lease) end(ctx context.Context) error {
	p := l.p
	p.mu.Lock()
	if l.state == ended {
		p.mu.Unlock()
		return nil
	}
	if err := ctx.Err(); err != nil { // a store may ignore that ctx has ended, and send the request
		p.mu.Unlock()
		return err
	}
	again := l.asked || l.state == unsure || l.ending > 0
	l.ending++
	how := driver.End{Unsure: l.state == unsure, Doubt: l.doubt}
	l.onLost = nil // a holder that gives the lease back need not hear of its end
	p.mu.Unlock()
	found, err := p.store.End(ctx, l.ref, how)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.ending--
	// Only now: a late event that grants the name would find no lease, and decline would end it before
	// the request above, which would then report a lost lease.
	l.forget()
	if err != nil {
		f := driver.FailureOf(err)
		l.asked = l.asked || f.Maybe
		if lost := lossOf(err); lost != nil {
			return l.note(lost)
		}
		return Worded(f)
	}
	l.state = ended
	if !found && !again {
		return l.note(&driver.LostError{Reason: driver.Gone})
	}
	return nil
}

// OnWanted makes the participant call f in a goroutine when others want the name of a lease whose request has Keeps,
// or may have wanted it while no event could be heard. That is a hint: it may be late, lost or repeated.
func (l *Lease) OnWanted(f func()) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if w := l.wanted; w != nil {
		if w.tell = f; w.said {
			w.put()
		}
	}
}

// Guard lets tx, a transaction on the database of the store, commit only if the lease has not ended, as end, if it is not
// nil, says; see driver.Guarder. It returns errors.ErrUnsupported if the store is none.
func (l *Lease) Guard(ctx context.Context, tx any, end error) error {
	if end == nil {
		end = l.over()
	}
	g, ok := l.p.store.(driver.Guarder)
	switch {
	case ok:
		return g.Guard(ctx, l.ref, l.token, tx, end)
	case end != nil:
		return end
	}
	return fmt.Errorf("this store is not a database whose transactions a lease can guard; send the Token with each write instead: %w", errors.ErrUnsupported)
}

// Files returns the files that keep the lease alive while a child process has them open, or nil if the store has none;
// see driver.Inheriter.
func (l *Lease) Files() []*os.File {
	if in, ok := l.p.store.(driver.Inheriter); ok {
		return in.Files(l.ref)
	}
	return nil
}
