// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// grant is one lease, or an attempt of unknown outcome. store.mu guards the fields that
// change.
type grant struct {
	s      *store
	key    string
	lease  string
	kind   string // as in the store; becomes shared with the first call of Downgrade
	record string // empty if not known
	token  uint64
	spare  uint64 // reserved tokens after it
	others bool   // the lock had waiters when it was granted
	since  driver.Instant
	unsure bool // it may not have been granted, and be in the queue
	doubt  bool // a request for the lease was sent and its answer did not come

	term   term              // the present one; zero if not known
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
	_ driver.Recallable = (*grant)(nil)
)

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return g.token }

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant { return g.since }

// Reserved implements driver.Reserver. The waiters may also be of this client.
func (g *grant) Reserved() (tokens uint64, others bool) { return g.spare, g.others }

// reserve reads the number of reserved tokens, and whether the lock had waiters.
func (g *grant) reserve(reply []rueidis.RedisMessage) {
	spare, _ := reply[0].AsInt64()
	waits, _ := reply[1].AsInt64()
	g.spare, g.others = uint64(max(spare, 0)), waits != 0
}

// Renew implements driver.Grant.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := g.s.checkTTL(ttl); err != nil {
		return 0, err
	}
	if err := g.over(); err != nil {
		return 0, err
	}
	shares := g.shares()
	reply, since, by, fail := g.s.server.RunReplicated(ctx, extendScript,
		[]string{g.key}, []string{g.lease, epoch.Millis(ttl), shares, g.s.server.EpochKey(g.key)})
	if fail != nil {
		g.s.mu.Lock()
		g.term = term{}
		g.s.mu.Unlock()
		return 0, fail.Err
	}
	if epoch.Code(reply) != 1 || len(reply) != 3 {
		if g.shares() != shares { // a Downgrade came in between, and the store was asked for the wrong form
			return g.Renew(ctx, ttl)
		}
		g.s.saw(by, since, reply) // a step of the clock may be why the lease is gone
		return 0, g.gone(g.s.broken(ctx, g.key, g.lease))
	}
	left, _ := reply[1].AsInt64()
	if time.Duration(left)*time.Millisecond < ttl { // else the server keeps the term before
		g.s.mu.Lock()
		g.term = term{since, driver.Now(), ttl}
		g.s.mu.Unlock()
	}
	g.s.saw(by, since, reply)
	return since, nil
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

// Release implements driver.Grant.
//
// A request for the lease that was given up may still be executed, and long after the
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
	// Not before: a late message that hands the lock over would find no grant and be declined,
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
	s, kind := g.s, g.kindNow()
	said := struct { // both in one allocation
		keys [6]string
		args [8]string
	}{s.keysOf(g.key, lease), [...]string{claimMillis, s.server.ChannelFor(g.key), s.id, kind, g.record, epoch.Bit(g.unsure), epoch.Bit(g.doubt), lease}}
	reply, _, fail := s.server.Run(ctx, releaseScript, said.keys[:], said.args[:])
	if fail == nil {
		if found = epoch.Code(reply) == 1; !found && g.kindNow() != kind {
			return g.release(ctx, lease) // as in Renew
		}
		return found, nil
	}
	if fail.Maybe {
		s.mu.Lock()
		g.asked = true
		s.mu.Unlock()
	}
	return false, fail.Err
}

// Pass implements driver.Passer.
func (g *grant) Pass(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := g.s
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	if a.key != g.key {
		return nil, fmt.Errorf("redislock: cannot pass a lease to another name, %q", driver.Shorten(req.Name))
	}
	if err := g.over(); err != nil {
		return nil, err
	}
	if g.shares() != "" || a.kind != exclusive {
		return nil, errors.New("redislock: only exclusive leases are passed on")
	}
	s.mu.Lock()
	heir := g.heir
	s.mu.Unlock()
	if heir != "" { // the successor may be the holder, and Release ends only one lease
		return nil, driver.ErrUncertain
	}
	by := s.layout.Beside(g.key)
	reply, since, _, fail := s.server.RunReplicated(ctx, passScript,
		[]string{g.key, s.server.FloorKey(g.key), s.server.EpochKey(g.key), by + brokenSuffix, by + queueSuffix},
		[]string{g.lease, attemptText(req.Lease, s.id, a.kind, a.record), epoch.Millis(req.TTL)})
	if fail != nil {
		if fail.Maybe {
			g.end(false, req.Lease)
		}
		return nil, fail.Err
	}
	switch epoch.Code(reply) {
	case 1:
		if len(reply) != 4 {
			g.end(false, req.Lease)
			return nil, fmt.Errorf("%w: the server's answer has %d parts", driver.ErrUncertain, len(reply))
		}
		token, err := reply[1].AsUint64()
		if err != nil {
			g.end(false, req.Lease)
			return nil, fmt.Errorf("%w: token: %w", driver.ErrUncertain, err)
		}
		next := a.granted(token, since)
		next.reserve(reply[2:])
		g.end(true, "")
		return next, nil
	case 0:
		return nil, g.gone(secondText(reply))
	}
	return nil, conn.Unavailable(errors.New("no new leases until those that the server may have forgotten have ended"))
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

// gone returns the *LostError for a reply that says that the lease has ended. news
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

// broken asks who has broken a lease. The lease has certainly ended, so it does not
// wait long for the answer.
func (s *store) broken(ctx context.Context, key, lease string) (news string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	replies, err := s.server.Read(ctx, []string{key}, func(b rueidis.Builder, key string) []rueidis.Completed {
		return []rueidis.Completed{b.Get().Key(s.layout.Beside(key) + brokenSuffix).Build()}
	})
	if err != nil {
		return ""
	}
	victim, news, _ := strings.Cut(text(replies[0][0]), " ")
	if victim != lease {
		return ""
	}
	return news
}

func text(r rueidis.RedisResult) string {
	s, _ := r.ToString()
	return s
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
