// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Clients that ask for a name at the same time may each get some nodes, and none of them a
// quorum. Redlock's page says what to do: wait for a random time that is large compared
// with the time of a round. So the largest delay is two rounds, times the number of waiters
// that the nodes know. Then one waiter comes clearly before the others, after about two
// rounds.

// longestRound bounds the estimate of round. When many callers begin at once, their first requests take longest, and the
// nodes seem to be far away. A waiter that pauses for longer than a claim lasts would lose its votes.
const longestRound = claimFor / 4

// round returns about how long a round takes: two round trips, because the caller lingers for as long as the quorum
// took. It returns 0 if no node has answered yet.
func (d *store) round() time.Duration { return min(2*d.trip(), longestRound) }

// patience returns how long to wait for the last nodes when the caller loses nothing by going on without them.
func (d *store) patience() time.Duration { return max(d.round(), 5*time.Millisecond) }

// lull returns a random delay before a client asks again, among so many waiters. n is the
// number of split votes in a row, or 0 for a client that a message has woken.
func (d *store) lull(n, waiters int, ttl time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pause(n, waiters, ttl)
}

// pause does what lull does. d.mu is held.
func (d *store) pause(n, waiters int, ttl time.Duration) time.Duration {
	if n == 0 && waiters < 2 {
		return 0
	}
	took := d.round()
	if took == 0 {
		took = d.graceOf(ttl) / 4
	}
	width := 2 * took * time.Duration(max(waiters, 1))
	least := time.Duration(0)
	if n > 0 {
		width, least = max(width, took<<min(n, 6)), took
	}
	return least + d.upTo(min(width, ttl/4))
}

// upTo returns a random duration up to width. d.mu is held.
func (d *store) upTo(width time.Duration) time.Duration {
	if width <= 0 {
		return 0
	}
	return time.Duration(d.random.Int64N(int64(width)))
}

// jitter returns a duration between half of pause and pause.
func (d *store) jitter(pause time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return pause/2 + d.upTo(pause/2)
}

// sleep returns after pause, or with an error when ctx or the store ends.
func (d *store) sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.ctx.Done():
		return unavailable(errClosed)
	}
}

// now returns the wall clock in microseconds.
func (d *store) now() uint64 { return uint64(max(d.clock().UnixMicro(), 1)) }

// tellShut tells the client, at most once a minute, that nodes grant nothing.
func (d *store) tellShut(nodes int, left time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := driver.Now()
	if d.warned != 0 && now.Sub(d.warned) <= time.Minute {
		return
	}
	d.warned = now
	d.events.Put(driver.Event{Kind: driver.Told,
		News: driver.News{Server: fmt.Sprintf("%d of %d nodes", nodes, len(d.members)), Closed: left}})
}
