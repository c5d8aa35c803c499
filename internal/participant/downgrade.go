// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// Downgrade ends l, which is exclusive, and returns the shared lease that req asks for. The store does both in
// one step. Downgrade returns ErrLost or ErrReleased if l has ended.
//
// After another error the store may have l or the shared lease. The participant undoes the shared lease, and the
// caller must release l.
func (l *Lease) Downgrade(ctx context.Context, req *driver.Request) (*Lease, error) {
	switch {
	case !l.p.caps.Downgrades:
		return nil, fmt.Errorf("this store cannot turn a lease into a shared one: %w", errors.ErrUnsupported)
	case l.ref.Shared || l.ref.Slots > 0:
		return nil, errors.New("only an exclusive lease can be turned into a shared one")
	}
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
		l.loss.notify = nil
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
