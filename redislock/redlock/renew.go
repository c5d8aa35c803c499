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

// Renew implements driver.Store. A quorum has to have the lock, and to confirm that
// before the lease would have ended: before a later answer somebody else may have had a
// lease. Nodes that have lost the lock get it back if they may.
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
		return driver.Renewal{}, nothing(err)
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

// heal returns nil if a quorum has the lock, for ttl from now at least.
func (l *lease) heal(ctx context.Context, has standing, ttl time.Duration) error {
	within := max(ttl, l.req.TTL) // a renewal that only asks has as long as any
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
		return false, nothing(err)
	}
	defer d.leave(ending)
	has := l.standing()
	l.mu.Lock()
	if l.has.turn != nil {
		l.has.turn.forget()
	}
	l.has = standing{claim: has.claim} // a second End may be needed
	l.mu.Unlock()
	if l.wished && has.token == 0 { // a writer that has given up keeps no reader out
		timer := time.NewTimer(d.graceOf(l.req.TTL))
		awaitQuorum(d, l.want(0), timer)
		timer.Stop()
	}
	if has.claim == nil {
		return false, nil
	}
	next := uint64(0)
	if has.token != 0 && !l.req.Shared { // later somebody else may have the name
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
		found = false // Renew says so, too: nodes count from later than the client
	case has.until <= driver.Now():
		found = true // it was given back in time, and ended while the request waited: nobody has lost it
	}
	return found || has.turn != nil, nil
}

// awaitEnd waits until a quorum has answered, and reports whether a quorum may have
// had the lock, and whether it is a waiter's now at a node. Nodes that were not told do not have it. If the answers differ, it
// waits for the others: a break may be under way to them.
func (c *claim) awaitEnd(ctx context.Context, answers <-chan ended) (had, passed bool, err error) {
	n, q := len(c.d.members), c.d.quorum
	free := n - cap(answers)
	has, missing := 0, free
	undecided := func() bool { return has+missing-free < q || has < q && missing <= n-q }
	heard := make([]bool, n)
	var failed misses
	var enough <-chan time.Time
	for undecided() && has+missing+len(failed) < n {
		if has+missing-free >= q && enough == nil {
			enough = c.d.behind(heard)
		}
		select {
		case a := <-answers:
			heard[a.node] = true
			if a.err != nil {
				if failed.add(c.d.members[a.node], a.err); len(failed) > n-q {
					return false, passed, unheard(failed.err(c.d, 0))
				}
				continue
			}
			if a.had {
				has++
			} else {
				missing++
			}
			passed = passed || a.next
		case <-enough:
			return true, passed, nil
		case <-ctx.Done():
			return false, passed, ctx.Err()
		}
	}
	return missing <= n-q, passed, nil
}

// unheard makes err one of a request that may have been carried out.
func unheard(err error) error { return fmt.Errorf("%w: %v", driver.ErrUncertain, err) }
