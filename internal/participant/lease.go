// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// lease is one lease from the first request for it to its end. Participant.mu guards the fields that
// change.
type lease struct {
	p   *Participant
	ref driver.Ref
	ttl time.Duration // that it was asked for with

	state       state
	doubt       bool    // a request for it had no answer: the store may receive it yet
	asked       bool    // a release was sent and had no answer
	others      bool    // somebody was waiting when it was granted
	unconfirmed bool    // an event about it may have been lost
	waiter      *waiter // while it is waited for

	token  uint64
	spare  uint64 // reserved tokens after it
	since  driver.Instant
	term   storekit.Term // the present one
	clock  *clock        // of the server that counts it
	loss   storekit.Loss
	wanted *wanted // nil unless the client may keep the lease
}

// wanted is what others who want a name have said.
type wanted struct {
	storekit.Outbox[driver.Recall]
	stop func() // listening for that; nil once that is over
}

// state is what the client knows of a lease.
type state uint8

const (
	asking state = iota // it was asked for, or is waited for
	unsure              // it may be held, or in the queue, but nobody wants it
	held
	ended // released
)

// forget removes a lease that has ended. The caller holds mu.
func (l *lease) forget() {
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
func (l *lease) hold(a *driver.Answer, t storekit.Term, since driver.Instant) {
	l.state, l.token, l.spare, l.others, l.since = held, a.Token, a.Spare, a.Waited, since
	if a.Handle != nil {
		l.ref.Handle = a.Handle
	}
	l.term, l.clock = t, l.p.clock(a.Server)
	l.waiter = nil
	if l.wanted != nil && a.Session == nil {
		l.wanted.Put(driver.Unheard)
	}
}

// over returns why a lease is not held any more, as far as the client knows.
func (l *lease) over() error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	switch err := l.loss.Err(); {
	case l.state == ended:
		return driver.ErrReleased
	case err != nil:
		return err
	case l.state == unsure:
		return driver.ErrUncertain
	}
	return nil
}

// Token implements driver.Grant.
func (l *lease) Token() uint64 { return l.token }

// Since implements driver.Grant.
func (l *lease) Since() driver.Instant { return l.since }

// Renew implements driver.Grant.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
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
		l.term, l.clock = storekit.Term{Sent: r.Since, Heard: heard, TTL: ttl}, l.p.clock(r.Server)
	}
	l.p.mu.Unlock()
	l.p.saw(r.Clock, heard)
	return r.Since, nil
}

// notRenewed records that a renewal has failed and returns the error for the caller.
func (l *lease) notRenewed(err error, c driver.Clock) error {
	f := worded(driver.FailureOf(err))
	if lost := lossOf(f.Err); lost != nil {
		l.p.saw(c, driver.Now()) // a step of the clock may be why the lease is gone
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		l.forget()
		return l.loss.Note(lost) // this error stays, whatever the caller asks next
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.term = storekit.Term{} // the store may have begun to count another one
	return f.Err
}

// Release implements driver.Grant.
//
// The service may receive a request for the lease that was given up long after the release, if it was
// sent over another connection. So the store is told of such requests.
func (l *lease) Release(ctx context.Context) error {
	p := l.p
	p.mu.Lock()
	if l.state == ended {
		p.mu.Unlock()
		return nil
	}
	again := l.asked || l.state == unsure
	how := driver.End{Unsure: l.state == unsure, Doubt: l.doubt}
	l.loss.Hush()
	p.mu.Unlock()
	found, err := p.store.End(ctx, l.ref, how)
	p.mu.Lock()
	defer p.mu.Unlock()
	// Not before: a late event that grants the name would find no lease and be declined, and the
	// request above find that the lease has ended.
	l.forget()
	if err != nil {
		f := worded(driver.FailureOf(err))
		l.asked = l.asked || f.Maybe
		if lost := lossOf(f.Err); lost != nil {
			return l.loss.Note(lost)
		}
		return f.Err
	}
	l.state = ended
	if !found && !again {
		return l.loss.Note(&driver.LostError{Reason: driver.Gone})
	}
	return nil
}

// OnLost implements driver.Notifier.
func (l *lease) OnLost(f func(error)) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.loss.OnLost(f)
}

// lose ends a lease that somebody else has ended. The caller holds mu.
func (l *lease) lose(why *driver.LostError) {
	if l.loss.Err() != nil || l.state == ended {
		return
	}
	l.forget()
	l.loss.Tell(why)
}

// kept is a lease that its client may keep for a while when nobody uses it.
type kept struct{ *lease }

// Reserved implements driver.Reserver. Nobody renews a lease that does not expire, so it may have ended
// unseen.
func (l kept) Reserved() (tokens uint64, others bool) {
	l.p.mu.Lock()
	tokens, others = l.spare, l.others
	l.p.mu.Unlock()
	if tokens > 0 && !l.p.caps.Expiry {
		if _, err := l.Renew(l.p.ctx, leastTTL); err != nil {
			return 0, true
		}
	}
	return tokens, others
}

// OnWanted implements driver.Recallable.
func (l kept) OnWanted(f func(driver.Recall)) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.wanted != nil { // else it has tokens to spare, but its client does not keep it
		l.wanted.To(func(how driver.Recall) { go f(how) })
	}
}

// keep makes sure that the lease is not handed over.
func (l *lease) keep() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.spare = 0
}

// guarded is a lease of a driver.StoreGuarder.
type guarded struct {
	kept
	store driver.StoreGuarder
}

// Guard implements driver.Guarder.
func (l guarded) Guard(ctx context.Context, tx any, end error) error {
	if end == nil {
		end = l.over()
	}
	l.keep() // the successor would not wait for the end of tx
	return l.store.Guard(ctx, l.ref, l.token, tx, end)
}

// inherited is a lease that a child process can inherit.
type inherited struct {
	kept
	from driver.Inheriter
}

// Files returns the files that the child needs, which would have the lease of a successor as well.
func (l inherited) Files() []*os.File {
	l.keep()
	return l.from.Files(l.ref)
}

// grant returns l as the caller sees it.
func (l *lease) grant() driver.Grant {
	if store, ok := l.p.store.(driver.StoreGuarder); ok {
		return guarded{kept{l}, store}
	}
	if from, ok := l.p.store.(driver.Inheriter); ok {
		return inherited{kept{l}, from}
	}
	if l.wanted != nil || l.spare > 0 {
		return kept{l}
	}
	return l
}

var (
	_ driver.Notifier = (*lease)(nil)
	_ driver.Reserver = kept{}
	_ driver.Guarder  = guarded{}
)
