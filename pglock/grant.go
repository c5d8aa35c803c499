// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// grant is one lease, or an attempt of unknown outcome. store.mu guards the fields that
// change.
type grant struct {
	s      *store
	name   string
	lease  string
	kind   int // as in the store; becomes shared with the first call of Downgrade
	token  uint64
	spare  uint64 // reserved tokens after it
	others bool   // the name had waiters when it was granted
	since  driver.Instant
	unsure bool // it may not have been granted, and be in the queue
	doubt  bool // a request for the lease was sent and its answer did not come

	term   storekit.Term     // the present one
	ended  bool              // released
	asked  bool              // a release was sent and its answer did not come
	lost   *driver.LostError // the news of its end
	notify func(error)       // from OnLost, until called
	recall *recall           // nil unless the client may keep the lease
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
	case g.lost != nil:
		return g.lost
	case g.unsure:
		return driver.ErrUncertain
	}
	return nil
}

func (g *grant) kindNow() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.kind
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
	g.notify = nil
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
		return g.lostError()
	}
	return nil
}

func (g *grant) release(ctx context.Context) (found bool, err error) {
	alone := func() ([][]byte, driver.Instant, *failure) {
		return g.s.call(ctx, g.s.sql.release, g.name, g.lease, claimMicros, boolean(g.unsure), boolean(g.doubt))
	}
	var row [][]byte
	var f *failure
	if g.kindNow() == 0 && !g.unsure && !g.doubt {
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

// Downgrade implements driver.Downgrader. From the first call on the store may have the
// lease in either form, and every function finds it in both.
func (g *grant) Downgrade(ctx context.Context) error {
	s := g.s
	if err := g.over(); err != nil {
		return err
	}
	s.mu.Lock()
	if g.kind > 0 {
		s.mu.Unlock()
		return errors.New("pglock: a slot cannot become a shared lease")
	}
	s.mu.Unlock()
	row, _, f := s.call(ctx, s.sql.downgrade, g.name, g.lease, claimMicros)
	if f != nil {
		return f.err
	}
	switch integer(row[0]) {
	case 1:
		s.mu.Lock()
		g.kind = shared
		s.mu.Unlock()
		return nil
	case closedNow:
		return unavailable(errGuarded)
	}
	return g.gone(string(row[1]))
}

// gone returns the *LostError for an answer that says that the lease has ended. news
// says who broke it, or is empty.
func (g *grant) gone(news string) error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	delete(g.s.grants, g.lease)
	if news != "" && g.lost == nil {
		g.lost = storekit.ReadBroken(news)
	}
	g.lost = g.lostError() // this error stays, whatever the caller asks next
	return g.lost
}

// lostError returns why the grant is lost. store.mu is held.
func (g *grant) lostError() *driver.LostError {
	if g.lost != nil {
		return g.lost
	}
	return &driver.LostError{Reason: driver.Gone}
}

// OnLost implements driver.Notifier.
func (g *grant) OnLost(f func(error)) {
	g.s.ear.start(g.s)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.lost != nil {
		go f(g.lost)
		return
	}
	g.notify = f
}

// lose reports the end of the lease. store.mu is held.
func (g *grant) lose(why *driver.LostError) {
	if g.lost != nil || g.ended {
		return
	}
	g.lost = why
	delete(g.s.grants, g.lease)
	if g.notify != nil {
		go g.notify(g.lost)
		g.notify = nil
	}
}
