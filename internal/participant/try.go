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
	// maxRepeats bounds how often a request is repeated at once.
	maxRepeats = 5
	// recallWithin is how long TryAcquire asks for a lease that may be kept, besides the time of four requests,
	// but a second at most, before it takes it for held. If nobody uses it, its client gives it back in the time
	// of two.
	recallWithin = 100 * time.Millisecond
)

// TryAcquire asks for a lease once and waits for nobody. It does not overtake waiters. The error is
//
//   - a *driver.HeldError if the name is held, or a *driver.SlotsError if with another number of slots;
//   - a *driver.ClosedError if the store grants nothing at present;
//   - driver.ErrUnavailable if the store has certainly recorded nothing;
//   - driver.ErrUncertain if the store may have recorded the lease, which the participant undoes;
//   - the error of ctx, under the same rule.
func (p *Participant) TryAcquire(ctx context.Context, req *driver.Request) (*Lease, error) {
	ctx, stop, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.done(stop)
	began := driver.Now()
	l, err := p.attemptOnce(ctx, req, attemptKind{})
	if !mayBeKept(err) {
		return l, err
	}
	asked := driver.Now()
	within := recallWithin + min(4*asked.Sub(began), time.Second)
	for pause := recallWithin / 400; mayBeKept(err) && driver.Now().Sub(asked) < within; pause = min(2*pause, recallWithin/8) {
		if err := pauseFor(ctx, pause); err != nil {
			return nil, err
		}
		l, err = p.attemptOnce(ctx, renamed(req), attemptKind{})
	}
	return l, err
}

// mayBeKept reports whether a lease is in the way that its client may only keep.
func mayBeKept(err error) bool {
	if err == nil {
		return false
	}
	var held *driver.HeldError
	return errors.As(err, &held) && held.Info != nil && len(held.Info.Holders) == 1 && held.Info.Holders[0].Keeps
}

// try asks, and asks again at once if what was in the way has gone.
func (p *Participant) try(ctx context.Context, req *driver.Request) (*Lease, error) {
	a := p.attempt(req)
	ans, err := a.ask(ctx, false)
	for range maxRepeats {
		if err != nil || ans.Granted || ans.Rank > 0 || len(ans.Holders) > 0 || ans.Closed > 0 {
			break
		}
		ans, err = a.ask(ctx, false) // waiters that had gone were in the way
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

// renamed returns a copy of req for another attempt, with a new id. The attempt before
// may be about to be undone; that must not undo the new one.
func renamed(req *driver.Request) *driver.Request {
	again := *req
	again.Lease = NewID()
	return &again
}

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns an id for a lease: 20 random bytes, as Redis's page on distributed locks advises,
// in letters and digits.
func NewID() string {
	var b [20]byte
	rand.Read(b[:])
	return idEncoding.EncodeToString(b[:])
}

// pauseFor waits for d, or until ctx ends, whose error it returns.
func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
