// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Renewals of a client that holds many leases go together, as each call and each commit
// costs the server more than what it does for one lease. A renewal that comes alone is sent
// at once; those that come soon after it wait for each other. That is little of a TTL:
// leases with a shorter one are renewed by themselves.
const (
	gather      = 50 * time.Millisecond
	gatherTTL   = 50 * gather
	maxRenewals = 500 // in a call
)

// renewals has those that will be sent together.
type renewals struct {
	mu   sync.Mutex
	next []*renewal
	last driver.Instant // when some were sent
}

// renewal is that of one lease.
type renewal struct {
	g    *grant
	ttl  time.Duration
	ends time.Time // after which nobody waits for the answer; zero if that is not known
	done chan struct{}

	// Set before done is closed. No row: it has to be sent by itself.
	row  [][]byte
	sent driver.Instant
	fail *failure
}

// Renew implements driver.Grant.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := g.s.checkTTL(ttl); err != nil {
		return 0, err
	}
	if err := g.over(); err != nil {
		return 0, err
	}
	row, sent, f := g.s.renew(ctx, &renewal{g: g, ttl: ttl})
	if f != nil {
		g.s.mu.Lock()
		g.term = storekit.Term{}
		g.s.mu.Unlock()
		return 0, f.err
	}
	switch integer(row[0]) {
	case tooLong:
		return 0, fmt.Errorf("pglock: %w", g.s.limit.tooLong(ttl, time.Duration(long(row[3]))*time.Microsecond))
	case 1:
		g.s.mu.Lock()
		if t := g.term; t.TTL == 0 || t.Sent.Add(t.TTL) < sent.Add(ttl) { // else the server keeps the one before
			g.term = storekit.Term{Sent: sent, Heard: driver.Now(), TTL: ttl}
		}
		g.s.mu.Unlock()
		g.s.saw(sent, long(row[1]))
		return sent, nil
	}
	if at := long(row[1]); at != 0 {
		g.s.saw(sent, at) // a step of the clock may be why the lease is gone
	}
	return 0, g.gone(string(row[2]))
}

// renew sends a renewal, together with others perhaps, and returns the answer.
func (s *store) renew(ctx context.Context, r *renewal) (row [][]byte, sent driver.Instant, f *failure) {
	r.ends, _ = ctx.Deadline()
	if r.ttl >= gatherTTL && s.soon.add(r, s.renewAll) {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, 0, &failure{err: ctx.Err(), maybe: true}
		}
		if r.row != nil || r.fail != nil {
			return r.row, r.sent, r.fail
		}
	}
	return s.bound(ctx, s.sql.renew, r.g.name, r.g.lease, num(int64(r.g.kind)), num(r.ttl.Microseconds()))
}

// add reports whether a renewal goes with others: then send is called for them soon.
func (q *renewals) add(r *renewal, send func([]*renewal)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := driver.Now()
	wait := q.last.Add(gather).Sub(now)
	if len(q.next) == 0 && wait <= 0 {
		q.last = now
		return false
	}
	r.done = make(chan struct{})
	q.next = append(q.next, r)
	switch len(q.next) {
	case 1:
		time.AfterFunc(wait, func() { send(q.take()) })
	case maxRenewals:
		go send(q.takeLocked())
	}
	return true
}

func (q *renewals) take() []*renewal {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

func (q *renewals) takeLocked() []*renewal {
	all := q.next
	q.next, q.last = nil, driver.Now()
	return all
}

// renewAll sends renewals as one call. Each caller waits for it no longer than it wants;
// the call goes on for the others, until the last of them has gone: then the connection,
// which may be dead, is free for those that come again.
func (s *store) renewAll(all []*renewal) {
	if len(all) == 0 { // they were sent when there were enough
		return
	}
	ctx := s.ctx
	byEnd := func(a, b *renewal) int { return a.ends.Compare(b.ends) }
	if last := slices.MaxFunc(all, byEnd).ends; !slices.MinFunc(all, byEnd).ends.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, last)
		defer cancel()
	}
	rows, sent, f := s.boundRows(ctx, s.sql.renewAll,
		array(all, func(r *renewal) string { return r.g.name }),
		array(all, func(r *renewal) string { return r.g.lease }),
		array(all, func(r *renewal) string { return num(int64(r.g.kind)) }),
		array(all, func(r *renewal) string { return num(r.ttl.Microseconds()) }))
	if f == nil && len(rows) != len(all) {
		f = s.strange(rows)
	}
	if f != nil {
		f = s.ended(f)
	}
	for i, r := range all {
		r.sent, r.fail = sent, f
		if f == nil && integer(rows[i][0]) != notAtOnce {
			r.row = rows[i]
		}
		close(r.done)
	}
}
