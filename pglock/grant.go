// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
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

	period period            // the present one; zero if not known
	ended  bool              // released or passed on
	asked  bool              // a release was sent and its answer did not come
	heir   string            // the lease of a Pass of unknown outcome
	lost   *driver.LostError // the news of its end
	notify func(error)       // from OnLost, until called
	recall *recall           // nil unless the client may keep the lease
}

var (
	_ driver.Notifier   = (*grant)(nil)
	_ driver.Passer     = (*grant)(nil)
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
// the lease. A late Pass does nothing: the lease that it ends is gone.
func (g *grant) Release(ctx context.Context) error {
	s := g.s
	s.mu.Lock()
	if g.ended && g.heir == "" {
		s.mu.Unlock()
		return nil
	}
	again := g.asked || g.unsure
	leases := []string{g.lease}
	if g.heir != "" {
		leases = append(leases, g.heir)
	}
	g.notify = nil
	s.mu.Unlock()
	done, found := false, false
	var err error
	for _, lease := range leases {
		if found, err = g.release(ctx, lease); err != nil {
			break
		}
		done = done || found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not before: a late message that hands the name over would find no grant and be declined,
	// and the release find that the lease has ended.
	delete(s.grants, g.lease)
	if err != nil {
		return err
	}
	g.ended, g.heir = true, ""
	if !done && !again {
		return g.lostError()
	}
	return nil
}

func (g *grant) release(ctx context.Context, lease string) (found bool, err error) {
	alone := func() ([][]byte, driver.Instant, *failure) {
		return g.s.call(ctx, g.s.sql.release, g.name, lease, claimMicros, boolean(g.unsure), boolean(g.doubt))
	}
	var row [][]byte
	var f *failure
	if g.kindNow() == 0 && !g.unsure && !g.doubt {
		row, _, f = g.s.gives.ask(ctx, []string{g.name, lease}, alone, g.s.giveAll)
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

// Pass implements driver.Passer.
func (g *grant) Pass(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := g.s
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	if err := g.over(); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	switch {
	case req.Name != g.name:
		return nil, fmt.Errorf("pglock: cannot pass a lease to another name, %q", driver.Shorten(req.Name))
	case g.kindNow() != 0 || a.kind != 0:
		return nil, errors.New("pglock: only exclusive leases are passed on")
	}
	s.mu.Lock()
	heir := g.heir
	s.mu.Unlock()
	if heir != "" { // the successor may be the holder, and Release ends only one lease
		return nil, driver.ErrUncertain
	}
	row, sent, f := s.bound(ctx, s.sql.pass, g.name, g.lease, req.Lease, s.id, a.record, num(req.TTL.Microseconds()))
	if f != nil {
		if f.maybe {
			g.end(false, req.Lease)
		}
		return nil, f.err
	}
	switch integer(row[0]) {
	case 1:
		next := a.granted(uint64(long(row[1])), sent)
		next.spare, next.others = uint64(long(row[2])), string(row[3]) == "t"
		g.end(true, "")
		return next, nil
	case tooLong:
		return nil, fmt.Errorf("pglock: %w", s.limit.tooLong(req.TTL, time.Duration(long(row[1]))*time.Microsecond))
	case closedNow:
		return nil, unavailable(errGuarded)
	}
	return nil, g.gone(string(row[4]))
}

// end records what a Pass has made of the grant.
func (g *grant) end(ended bool, heir string) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.ended, g.heir = ended, heir
	if ended {
		g.notify = nil
		delete(g.s.grants, g.lease)
	}
}

// Downgrade implements driver.Downgrader. From the first call on the store may have the
// lease in either form, and every function finds it in both.
func (g *grant) Downgrade(ctx context.Context) error {
	s := g.s
	if err := g.over(); err != nil {
		return err
	}
	s.mu.Lock()
	switch {
	case g.heir != "":
		s.mu.Unlock()
		return driver.ErrUncertain
	case g.kind > 0:
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
		g.lost = readNews(news)
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

// readNews reads who broke a lease and why.
func readNews(news string) *driver.LostError {
	lost := &driver.LostError{Reason: driver.Broken}
	var r record
	if json.Unmarshal([]byte(news), &r) == nil {
		lost.By, lost.Why = &r.Holder, r.Why
	}
	return lost
}
