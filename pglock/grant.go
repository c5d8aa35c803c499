// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// grant is one lease, or an attempt of unknown outcome. store.mu guards the fields that
// change.
type grant struct {
	s      *store
	name   string
	lease  string
	kind   int // as in the store
	token  uint64
	spare  uint64 // reserved tokens after it
	others bool   // the name had waiters when it was granted
	since  driver.Instant
	unsure bool // it may not have been granted, and be in the queue
	doubt  bool // a request for the lease was sent and its answer did not come

	term   storekit.Term // the present one
	ended  bool          // released
	asked  bool          // a release was sent and its answer did not come
	loss   storekit.Loss
	recall *recall // nil unless the client may keep the lease
}

var (
	_ driver.Notifier   = (*grant)(nil)
	_ driver.Downgrader = (*grant)(nil)
	_ driver.Reserver   = (*grant)(nil)
)

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return g.token }

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant { return g.since }

// Reserved implements driver.Reserver. The waiters may also be of this client.
func (g *grant) Reserved() (tokens uint64, others bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.spare, g.others
}

// over returns why the grant has ended, as far as this participant knows.
func (g *grant) over() error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	switch {
	case g.ended:
		return driver.ErrReleased
	case g.loss.Err() != nil:
		return g.loss.Err()
	case g.unsure:
		return driver.ErrUncertain
	}
	return nil
}

// Release implements driver.Grant.
//
// A request for the lease that was given up may still be carried out, and long after the
// release if it was sent on another connection. So the release leaves a tombstone for
// the lease.
func (g *grant) Release(ctx context.Context) error {
	s := g.s
	s.mu.Lock()
	if g.ended {
		s.mu.Unlock()
		return nil
	}
	again := g.asked || g.unsure
	g.loss.Hush()
	s.mu.Unlock()
	found, err := g.release(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not before: a late message that hands the name over would find no grant and be declined,
	// and the release find that the lease has ended.
	delete(s.grants, g.lease)
	if err != nil {
		return err
	}
	g.ended = true
	if !found && !again {
		return g.loss.Note(storekit.HowLost(""))
	}
	return nil
}

func (g *grant) release(ctx context.Context) (found bool, err error) {
	alone := func() ([][]byte, driver.Instant, *failure) {
		return g.s.call(ctx, g.s.sql.release, g.name, g.lease, claimMicros, boolean(g.unsure), boolean(g.doubt))
	}
	var row [][]byte
	var f *failure
	if g.kind == 0 && !g.unsure && !g.doubt {
		row, _, f = g.s.gives.ask(ctx, []string{g.name, g.lease}, alone, g.s.giveAll)
	} else {
		row, _, f = alone()
	}
	if f == nil {
		return integer(row[0]) == 1, nil
	}
	if f.maybe {
		g.s.mu.Lock()
		g.asked = true
		g.s.mu.Unlock()
	}
	return false, f.err
}

// Downgrade implements driver.Downgrader.
func (g *grant) Downgrade(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := g.s
	if err := g.over(); err != nil {
		return nil, err
	}
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	row, sent, f := s.bound(ctx, s.sql.downgrade, g.name, g.lease, req.Lease, s.id, a.record, num(req.TTL.Microseconds()), claimMicros, boolean(g.doubt))
	if f != nil {
		a.doubt = f.maybe
		return a.undo(f)
	}
	switch integer(row[0]) {
	case 1:
	case closedNow:
		return nil, s.closedFor(time.Duration(long(row[1])) * time.Microsecond)
	case notAtOnce:
		return nil, unavailable(errGuarded)
	case tombstone:
		return nil, errEnded
	case tooLong:
		return nil, fmt.Errorf("pglock: %w", s.limit.tooLong(req.TTL, time.Duration(long(row[1]))*time.Microsecond))
	default:
		return nil, g.gone(string(row[3]))
	}
	s.mu.Lock()
	g.ended = true
	g.loss.Hush()
	delete(s.grants, g.lease)
	s.mu.Unlock()
	shared := a.granted(uint64(long(row[1])), sent)
	s.saw(sent, long(row[2]))
	return shared, nil
}

// gone returns the *LostError for an answer that says that the lease has ended. news
// says who broke it, or is empty.
func (g *grant) gone(news string) error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	delete(g.s.grants, g.lease)
	return g.loss.Note(storekit.HowLost(news)) // this error stays, whatever the caller asks next
}

// OnLost implements driver.Notifier.
func (g *grant) OnLost(f func(error)) {
	g.s.ear.start(g.s)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.loss.OnLost(f)
}

// lose reports the end of the lease. store.mu is held.
func (g *grant) lose(why *driver.LostError) {
	if g.loss.Err() != nil || g.ended {
		return
	}
	delete(g.s.grants, g.lease)
	g.loss.Tell(why)
}
