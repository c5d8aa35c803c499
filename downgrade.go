// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// Downgrade makes an exclusive lease a shared one without letting go in between,
// so that what a writer has written is not changed before it has read it. Readers
// that wait come in. The token stays. On a shared lease it does nothing.
//
// It returns ErrLost or ErrReleased if the lease has ended, an error that wraps
// errors.ErrUnsupported if the lease is one of several slots or the store cannot
// downgrade, an error if it has several holds, and ctx.Err() if ctx ends first.
// After any other error the lease is held still, and others may see it as
// exclusive or as shared: call again.
func (l *Lease) Downgrade(ctx context.Context) error {
	ctx = present(ctx)
	if err := l.downgrade(ctx); err != nil {
		return l.client.opError(ctx, "downgrade", l.name, err)
	}
	return nil
}

func (l *Lease) downgrade(ctx context.Context) error {
	l.check()
	if err := l.ended(); err != nil {
		return err
	}
	c := l.client
	d, ok := l.grant.(driver.Downgrader)
	switch k := l.kindNow(); {
	case k == shared:
		return nil
	case k > 0:
		return fmt.Errorf("it is one of %d slots: only an exclusive lease can become shared: %w", k, errors.ErrUnsupported)
	case !ok || !c.guarantees.Shared:
		return fmt.Errorf("this store cannot make a lease shared: %w", errors.ErrUnsupported)
	}
	if err := l.lower(); err != nil {
		return err
	}
	ctx, cancel := c.untilClose(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// It is not passed on any more: the store may take it for shared from now on,
	// even if the answer is lost.
	c.leave(l)
	err := d.Downgrade(ctx)
	if errors.Is(err, ErrLost) {
		l.lose(asLost(err, driver.Gone))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return l.cause
	case err == nil:
		l.lowered = true
	}
	return err
}

// kindNow returns the kind of lease that l is by now.
func (l *Lease) kindNow() kind {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lowered {
		return shared
	}
	return l.kind
}

// lower notes that a Downgrade begins, if it may: others may count on the lease's being
// exclusive, or it has ended just now, and its grant is another lease's.
func (l *Lease) lower() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return l.cause
	}
	l.lowering = l.lowering || l.more == 0 // who has come since then wants to share
	if !l.lowering {
		return errors.New("it is held more than once, and the others count on it as it is: downgrade before it is acquired again")
	}
	return nil
}
