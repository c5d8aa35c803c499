// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// grant is one lease, or an attempt of unknown outcome. store.mu guards the fields that
// change.
type grant struct {
	s      *store
	key    string
	lease  string
	kind   string // as in the store
	record string // empty if not known
	token  uint64
	spare  uint64 // reserved tokens after it
	others bool   // the lock had waiters when it was granted
	since  driver.Instant
	unsure bool // it may not have been granted, and be in the queue
	doubt  bool // a request for the lease was sent and its answer did not come
	claim  bool // a message has handed the lock over, and the lease was not renewed yet

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
	reply, since, by, fail := g.s.server.RunReplicated(ctx, extendScript,
		[]string{g.key}, append([]string{g.lease, epoch.Millis(ttl), g.shares(), g.s.server.EpochKey(g.key)}, g.claimed()...))
	if fail != nil {
		g.s.mu.Lock()
		g.term = storekit.Term{}
		g.s.mu.Unlock()
		return 0, fail.Err
	}
	if epoch.Code(reply) != 1 || len(reply) != 3 {
		g.s.saw(by, since, reply) // a step of the clock may be why the lease is gone
		return 0, g.gone(g.s.broken(ctx, g.key, g.lease))
	}
	left, _ := reply[1].AsInt64()
	g.s.mu.Lock()
	g.claim = false
	g.s.mu.Unlock()
	if time.Duration(left)*time.Millisecond < ttl { // else the server keeps the term before
		g.s.mu.Lock()
		g.term = storekit.Term{Sent: since, Heard: driver.Now(), TTL: ttl}
		g.s.mu.Unlock()
	}
	g.s.saw(by, since, reply)
	return since, nil
}

// claimed returns the key of the claim that the first renewal takes.
func (g *grant) claimed() []string {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if !g.claim {
		return nil
	}
	return []string{g.s.layout.Beside(g.key) + queueSuffix + claimSuffix}
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
// A request for the lease that was given up may still be executed, and long after the
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
	// Not before: a late message that hands the lock over would find no grant and be declined,
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
	s := g.s
	said := struct { // both in one allocation
		keys [5]string
		args [8]string
	}{s.keysOf(g.key, g.lease), [...]string{claimMillis, s.server.ChannelFor(g.key), s.id, g.kind, g.record, epoch.Bit(g.unsure), epoch.Bit(g.doubt), g.lease}}
	reply, _, fail := s.server.Run(ctx, releaseScript, said.keys[:], said.args[:])
	if fail == nil {
		return epoch.Code(reply) == 1, nil
	}
	if fail.Maybe {
		s.mu.Lock()
		g.asked = true
		s.mu.Unlock()
	}
	return false, fail.Err
}

// gone returns the *LostError for a reply that says that the lease has ended. news
// says who broke it, or is empty.
func (g *grant) gone(news string) error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	delete(g.s.grants, g.lease)
	return g.loss.Note(storekit.HowLost(news)) // this error stays, whatever the caller asks next
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

// OnLost implements driver.Notifier.
func (g *grant) OnLost(f func(error)) {
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
