// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

var _ driver.Adopter = (*store)(nil)

// Adopt implements driver.Adopter. Whatever else than the value of one of our leases is in
// the lock's place is left alone: a lease of another library may be known by its whole value.
func (s *store) Adopt(ctx context.Context, name, lease string) (driver.Grant, error) {
	if err := s.usable(ctx, nil); err != nil {
		return nil, err
	}
	if err := s.layout.Check(name); err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	key := s.layout.Lock(name)
	a := &adopted{grant: &grant{s: s, key: key, lease: lease, kind: exclusive}}
	there, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	// Before it says that the lease has ended: while the server is closed it may have forgotten the lease.
	if _, _, err := a.ask(ctx, 0); err != nil {
		return nil, err
	}
	if !there {
		return nil, a.grant.gone(s.broken(ctx, key, lease))
	}
	return a, nil
}

// adopted is a lease that another participant may have got. Its grant is not among those
// of the store: the messages about it go to that participant.
type adopted struct {
	grant   *grant
	attempt string // among the leases that hold the lock together; empty if it has the lock alone
}

// look reports whether the lease holds the lock, and reads its token and in which form it is.
func (a *adopted) look(ctx context.Context) (there bool, err error) {
	replies, err := a.grant.s.server.Read(ctx, []string{a.grant.key}, func(b rueidis.Builder, key string) []rueidis.Completed {
		return []rueidis.Completed{
			b.Get().Key(key).Build(),
			b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(),
			b.Time().Build(),
		}
	})
	if err != nil {
		return false, readError(ctx, err)
	}
	value, err := replies[0][0].ToString()
	if err != nil && !rueidis.IsRedisNil(err) && !isWrongType(err) {
		return false, readError(ctx, conn.Lacking(err, "get"))
	}
	if f := strings.SplitN(value, " ", 5); len(f) == 5 && f[0] == a.grant.lease {
		a.grant.token = uint64(parseHeld(value, -1, time.Time{}).Token)
		return true, nil
	}
	members, err := replies[0][1].AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) && !isWrongType(err) {
		return false, readError(ctx, conn.Lacking(err, "zrange"))
	}
	if len(members) == 0 {
		return false, nil
	}
	at, err := replies[0][2].AsIntSlice()
	if err != nil || len(at) != 2 {
		return false, readError(ctx, conn.Lacking(err, "time"))
	}
	held := readSharers(members, time.Unix(at[0], at[1]*1000))
	i := slices.IndexFunc(held, func(h driver.Held) bool { return h.Lease == a.grant.lease })
	j := slices.IndexFunc(members, func(m rueidis.ZScore) bool { return strings.HasPrefix(m.Member, a.grant.lease+" ") })
	if i < 0 || j < 0 {
		return false, nil
	}
	a.attempt, a.grant.token = members[j].Member, uint64(held[i].Token)
	return true, nil
}

// Token implements driver.Grant.
func (a *adopted) Token() uint64 { return a.grant.token }

// Since implements driver.Grant.
func (a *adopted) Since() driver.Instant { return 1 }

// Renew implements driver.Grant.
func (a *adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	g := a.grant
	if err := g.s.checkTTL(ttl); err != nil {
		return 0, err
	}
	if err := g.over(); err != nil {
		return 0, err
	}
	renewed, since, err := a.ask(ctx, ttl)
	if err == nil && !renewed {
		err = g.gone(g.s.broken(ctx, g.key, g.lease))
	}
	if err != nil {
		return 0, err
	}
	return since, nil
}

// ask renews the lease, or only looks at it with a TTL of 0, and reports whether it was
// there. It returns a *ClosedError while the server is closed.
func (a *adopted) ask(ctx context.Context, ttl time.Duration) (there bool, since driver.Instant, err error) {
	g := a.grant
	reply, since, by, fail := g.s.server.RunReplicated(ctx, adoptedScript,
		[]string{g.key, g.s.server.EpochKey(g.key)}, []string{g.lease, epoch.Millis(ttl), a.attempt})
	if fail != nil {
		return false, 0, fail.Err
	}
	if epoch.Code(reply) == closedNow && len(reply) == 2 {
		left, _ := reply[1].AsInt64()
		return false, 0, closedFor(time.Duration(left) * time.Millisecond)
	}
	g.s.saw(by, since, reply)
	return epoch.Code(reply) == 1 && len(reply) == 3, since, nil
}

// Release implements driver.Grant.
func (a *adopted) Release(ctx context.Context) error { return a.grant.Release(ctx) }
