// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// Renew implements driver.Store. It succeeds if a quorum has the lock, and confirms that
// before the lease would have ended. A later answer proves nothing: somebody else may have
// had a lease in between. A node that has lost the lock stores it again, unless another
// lease has it there or has overtaken this one.
func (d *store) Renew(ctx context.Context, ref driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if err := checkTTL(ttl, d.maxTTL); err != nil {
		return driver.Renewal{}, &driver.Failure{Err: err, Lasting: true}
	}
	l, known := ref.Handle.(*lease)
	if !known {
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
	}
	has := l.standing()
	switch {
	case has.token == 0:
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
	case driver.Now() >= has.until:
		return driver.Renewal{}, &driver.LostError{Reason: driver.Expired}
	}
	if err := d.enter(ctx, timed); err != nil {
		return driver.Renewal{}, notSent(err)
	}
	defer d.leave(timed)
	since := driver.Now()
	if err := l.heal(ctx, has, ttl); err != nil {
		return driver.Renewal{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if driver.Now() >= l.has.until {
		return driver.Renewal{}, &driver.LostError{Reason: driver.Expired}
	}
	until := since.Add(ttl)
	kept := until < l.has.until
	l.has.until = max(until, l.has.until)
	return driver.Renewal{Since: since, Kept: kept}, nil
}

// heal returns nil if a quorum has the lock for at least ttl from now.
func (l *lease) heal(ctx context.Context, has standing, ttl time.Duration) error {
	within := max(ttl, l.req.TTL) // a renewal with a short ttl, which only asks, may take as long as any other
	answers := has.claim.propose(nodewire.Heal, has.token, ttl, within)
	if answers == nil {
		return &driver.LostError{Reason: driver.Gone} // it was ended meanwhile
	}
	t, v, err := l.d.count(ctx, nodewire.Heal, l.req.Shared, answers, within)
	if len(t.ended) > 0 {
		return storekit.HowLost(t.ended[0].News)
	}
	switch {
	case err != nil:
		return err
	case v == won:
		return nil
	case len(t.others)+t.free > len(l.d.members)-l.d.quorum:
		return &driver.LostError{Reason: driver.Gone}
	}
	if no := t.failed.disagreement(); no != nil {
		return no
	}
	return fmt.Errorf("%w: %d of %d nodes have extended the lease, and %d have to: %v",
		driver.ErrUncertain, t.has.n, len(l.d.members), l.d.quorum, t.failed)
}

// End implements driver.Store. It returns when a quorum has answered, and goes on
// with the others in the background.
func (d *store) End(ctx context.Context, ref driver.Ref, _ driver.End) (found bool, _ error) {
	l, known := ref.Handle.(*lease)
	if !known {
		return false, nil
	}
	asked := driver.Now()
	if err := d.enter(ctx, ending); err != nil {
		return false, notSent(err)
	}
	defer d.leave(ending)
	has, sent := l.standing(), driver.Now()
	l.mu.Lock()
	if l.has.turn != nil {
		l.has.turn.forget()
	}
	l.has = standing{claim: has.claim} // a second End may be needed
	l.mu.Unlock()
	if has.claim == nil {
		return false, nil
	}
	next := uint64(0)
	if has.token != 0 && !l.req.Shared { // a second End has no token: somebody else may have the name by then
		next = d.nextToken(has.token)
	}
	found, passed, err := has.claim.awaitEnd(ctx, has.claim.end("", next))
	if passed {
		d.handOver(l.req.Name, next)
	}
	if err != nil {
		return false, err
	}
	l.set(standing{})
	switch {
	case has.token == 0:
	case asked >= has.until:
		found = false // the lease was over for the client, as Renew would say; the nodes count from a later instant
	case sent >= has.until:
		found = true // the caller released in time, and the lease ended while the request waited at the gate: this is no loss
	}
	return found || has.turn != nil, nil
}

// awaitEnd waits until a quorum has answered. had reports whether a quorum may have had the
// lock; passed reports whether a node has given it to a waiter. A node that got no ending counts
// as one without the lock. If the answers differ, awaitEnd waits for the other nodes: a break may
// be under way to them.
func (c *claim) awaitEnd(ctx context.Context, answers <-chan reply[ended]) (had, passed bool, err error) {
	n, q := len(c.d.members), c.d.quorum
	has, missing := 0, n-cap(answers)
	answered := 0
	var failed misses
	err = gather(ctx, c.d, nil, answers, c.d.behind, func(a reply[ended]) bool {
		if a.err != nil {
			failed.add(c.d.members[a.node], a.err)
			return len(failed) > n-q
		}
		answered++
		if a.answer.had {
			has++
		} else {
			missing++
		}
		passed = passed || a.answer.next
		return answered >= q && (has >= q || missing > n-q)
	})
	switch {
	case answered >= q:
		err = nil // even if ctx has ended while the others had their grace
	case len(failed) > n-q:
		err = unheard(failed.err(c.d, 0))
	}
	return missing <= n-q, passed, err
}

// unheard makes err the error of a request that may have been carried out.
func unheard(err error) error { return fmt.Errorf("%w: %v", driver.ErrUncertain, err) }
