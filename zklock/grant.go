// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// granted returns the answer that grants the lease. session.mu is held.
func (n *node) granted(since driver.Instant) driver.Answer {
	ans := driver.Answer{Granted: true, Token: n.token, Waited: true, Since: since, Handle: n, Session: n.s.link}
	if !n.ref.Shared && n.ref.Slots == 0 {
		ans.Spare = reserved
	}
	return ans
}

// grant begins the lease when it can be trusted. For a lease that did not wait, trust may count from the request
// that made the node, and grant does not wait until the node is watched. Otherwise trust may count from the last
// confirmation of the session, if the watch on the node has not fired. If neither gives enough trust, grant has a
// quorum confirm the session again.
func (n *node) grant(ctx context.Context, queue bool) (driver.Answer, error) {
	s, since := n.s, n.since
	n.since = 0
	if since == 0 || s.inTime(since) != nil { // place may have taken a long time
		var err error
		if since, err = n.confirm(ctx, queue); err != nil {
			return driver.Answer{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !n.begin(since) {
		return driver.Answer{}, errOver
	}
	if !n.watching() {
		s.store.work.Go(n.review)
	}
	return n.granted(since), nil
}

// confirm watches the node and has a quorum confirm the session until the lease can be trusted. It returns the
// instant from which trust counts. For a request that joins the queue, confirm asks only once and may return
// errYoung, as the caller will ask again. It returns errTooSlow if it could not trust the lease for a whole TTL.
func (n *node) confirm(ctx context.Context, queue bool) (driver.Instant, error) {
	s := n.s
	if err := n.own(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if n.young == 0 {
		n.young = driver.Now()
	}
	young := n.young
	since, err := n.standing()
	s.mu.Unlock()
	if err == nil && s.inTime(since) == nil {
		return since, nil
	}
	for {
		since, err := call(ctx, s, s.touch)
		if err == nil {
			err = s.inTime(since)
		}
		switch {
		case !errors.Is(err, errYoung):
			return since, err
		case driver.Now().Sub(young) > s.ttl:
			return 0, s.tooSlow()
		case queue:
			return 0, err
		case !s.sleep(ctx, s.store.tick/4):
			return 0, errors.Join(ctx.Err(), s.why())
		}
	}
}

var errTooSlow = fmt.Errorf("%w: the servers answer too slowly for this TTL", driver.ErrUnavailable)

// tooSlow returns errTooSlow with a TTL that would be long enough.
func (s *session) tooSlow() error {
	trip := get(s, &s.trip)
	least := max(8*trip+9*s.store.tick, s.ttl*5/4).Round(100 * time.Millisecond)
	return fmt.Errorf("%w: a round trip takes %v (%s): use a TTL of at least %v", errTooSlow, trip.Round(time.Millisecond), s.store.ticks(), least)
}

// ahead handles an event of a node that is before n in the queue. session.mu is held.
//
// New nodes join at the end, so the nodes before n only decrease. n.line may still contain nodes that have gone,
// but it lacks none that exists. So if n is among the holders of n.line, it holds the name, and the client need
// not ask.
func (n *node) ahead(e event) {
	if n.line == nil {
		return
	}
	if e.gone {
		n.line = slices.DeleteFunc(n.line, func(c child) bool { return n.dir+"/"+c.name == e.path })
		if n.line.index(n.name) < n.line.holders() {
			if since, err := n.standing(); err == nil && n.begin(since) {
				n.tell(driver.Event{Kind: driver.Granted, Grant: n.granted(since), Heard: driver.Now()})
				return
			}
		}
	}
	n.tell(driver.Event{Kind: driver.Look})
}
