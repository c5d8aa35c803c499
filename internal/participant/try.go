// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxRepeats bounds how often try repeats a request at once.
	maxRepeats = 5
	// recallWithin, and the time of four requests (at most a second), is how long TryAcquire asks again for a
	// name whose lease may only be kept. A client that keeps an unused lease gives it back within two requests.
	recallWithin = 100 * time.Millisecond
)

// TryAcquire asks for a lease once and waits for nobody. It does not overtake waiters. The error is
//
//   - a *driver.HeldError if the name is held;
//   - a *driver.SlotsError if it is held with another number of slots;
//   - a *driver.ClosedError if the store grants nothing at present;
//   - driver.ErrUnavailable if the store has certainly recorded nothing;
//   - driver.ErrUncertain if the store may have recorded the lease, which the participant undoes;
//   - the error of ctx, together with one of the last two.
func (p *Participant) TryAcquire(ctx context.Context, req *driver.Request) (*Lease, error) {
	ctx, stop, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.done(stop)
	began := driver.Now()
	l, err := p.attemptOnce(ctx, req, p.try)
	if !mayBeKept(err) {
		return l, err
	}
	asked := driver.Now()
	within := recallWithin + min(4*asked.Sub(began), time.Second)
	for pause := recallWithin / 400; mayBeKept(err) && driver.Now().Sub(asked) < within; pause = min(2*pause, recallWithin/8) {
		if err := pauseFor(ctx, pause); err != nil {
			return nil, err
		}
		l, err = p.attemptOnce(ctx, renamed(req), p.try)
	}
	return l, err
}

// mayBeKept reports whether the lease in the way may be one that its client only keeps.
func mayBeKept(err error) bool {
	if err == nil {
		return false
	}
	var held *driver.HeldError
	return errors.As(err, &held) && held.Info != nil && len(held.Info.Holders) == 1 && held.Info.Holders[0].Keeps
}

// try asks once, and again at once if the store refuses without a holder or waiter in the way.
func (p *Participant) try(ctx context.Context, req *driver.Request) (*Lease, error) {
	a := p.attempt(req)
	ans, err := a.ask(ctx, false)
	for range maxRepeats {
		if err != nil || ans.Granted || ans.Rank > 0 || len(ans.Holders) > 0 || ans.Closed > 0 {
			break
		}
		ans, err = a.ask(ctx, false) // the first request has removed waiters that had gone
	}
	switch {
	case err != nil:
		return nil, a.giveUp(driver.FailureOf(err))
	case ans.Granted:
		return a.Lease, nil
	}
	p.mu.Lock()
	a.forget()
	p.mu.Unlock()
	if ans.Closed > 0 && len(ans.Holders) == 0 {
		return nil, p.closedFor(ctx, ans)
	}
	return nil, &driver.HeldError{Info: infoOf(req.Name, ans.Holders)}
}

// closedFor returns the error of a store that grants nothing at present.
func (p *Participant) closedFor(ctx context.Context, ans driver.Answer) error {
	err := &driver.ClosedError{Left: ans.Closed}
	if info, no := p.store.Describe(ctx); no == nil {
		err.MaxTTL, err.SetBy, err.Do = info.MaxTTL, info.SetBy, info.Do
	}
	return err
}

func infoOf(name string, holders []driver.Held) *driver.Info {
	info := &driver.Info{Name: name, Holders: holders}
	for _, h := range holders {
		info.Token = max(info.Token, h.Token)
	}
	return info
}

// renamed returns a copy of req for another attempt, with a new id: undoing the attempt
// before, which may still go on, must not undo the new one.
func renamed(req *driver.Request) *driver.Request {
	again := *req
	again.Lease = NewID()
	return &again
}

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns an id for a lease: 20 random bytes, as the Redis documentation on distributed locks
// advises, in letters and digits.
func NewID() string {
	var b [20]byte
	rand.Read(b[:])
	return idEncoding.EncodeToString(b[:])
}

// pauseFor waits for d. If ctx ends first, it returns the error of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Downgrade ends l, which is exclusive in a store with Caps.Downgrades, and returns the shared lease that req asks for. The store does both in
// one step. Downgrade returns ErrLost or ErrReleased if l has ended.
//
// After another error the store may have l or the shared lease. The participant undoes the shared lease, and the
// caller must release l.
func (l *Lease) Downgrade(ctx context.Context, req *driver.Request) (*Lease, error) {
	if err := l.over(); err != nil {
		return nil, err
	}
	ctx, stop, err := l.p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer l.p.done(stop)
	return l.p.attemptOnce(ctx, req, l.lower)
}

func (l *Lease) lower(ctx context.Context, req *driver.Request) (*Lease, error) {
	p := l.p
	a := p.attempt(req)
	a.req.Instead = l.ref.Lease
	ans, err := a.ask(ctx, false)
	p.mu.Lock()
	late := l.doubt
	if a.doubt { // the store may have ended l
		l.doubt, l.asked = true, true
	}
	if err == nil && ans.Granted {
		l.state = ended
		l.onLost = nil
		l.forget()
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		return nil, a.giveUp(driver.FailureOf(err))
	case ans.Closed > 0:
		return nil, a.giveUp(driver.Failure{Err: p.closedFor(ctx, ans)})
	case !ans.Granted:
		return nil, a.giveUp(driver.Failure{Err: &driver.HeldError{Info: infoOf(req.Name, ans.Holders)}})
	}
	if late { // a request for l may still reach the store
		_, _ = p.store.End(ctx, l.ref, driver.End{Unsure: true, Doubt: true})
	}
	return a.Lease, nil
}
