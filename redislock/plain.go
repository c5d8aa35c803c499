// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// plain is one participant with Efficiency: SET NX PX, and scripts that compare
// before they do anything. They are bound to no run of a server, so what one has
// forgotten is granted again at once. What it shares with those of Correctness is
// the layout, and that the lock can be looked at.
type plain struct{ s *store }

var _ driver.Inspector = (*plain)(nil)

var (
	//go:embed lua/plain-extend.lua
	plainExtendLua string
	//go:embed lua/plain-release.lua
	plainReleaseLua string
	//go:embed lua/plain-break.lua
	plainBreakLua string

	plainExtend, plainRelease, plainBreak = newUnbound(plainExtendLua), newUnbound(plainReleaseLua), newUnbound(plainBreakLua)
)

// unbound is a script that is the same for all runs of all servers.
type unbound struct{ text, sha string }

func newUnbound(text string) *unbound {
	return &unbound{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))}
}

// run runs a script, and brings it along if the server does not know it.
func (p *plain) run(ctx context.Context, script *unbound, keys []string, args ...string) ([]rueidis.RedisMessage, driver.Instant, *conn.Failure) {
	n := int64(len(keys))
	r, since, fail := p.s.server.Send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
		return b.Evalsha().Sha1(script.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
	})
	if refused, ok := rueidis.IsRedisErr(r.Error()); ok && refused.IsNoScript() {
		r, since, fail = p.s.server.Send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
			return b.Eval().Script(script.text).Numkeys(n).Key(keys...).Arg(args...).Build()
		})
	}
	if fail != nil {
		return nil, 0, fail
	}
	reply, err := r.ToArray()
	if err == nil && len(reply) == 0 {
		err = errors.New("the server's answer is empty")
	}
	if err != nil {
		return nil, 0, &conn.Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, err), Maybe: true, Lasting: true}
	}
	return reply, since, nil
}

// Guarantees implements driver.Driver.
func (p *plain) Guarantees() driver.Guarantees {
	return driver.Guarantees{CrossHost: true, Expiry: true}
}

// TryAcquire implements driver.Driver. It overtakes those who wait. If the lock is
// held, that may be by an attempt for the same lease whose answer was lost: the
// script that extends finds out, and else tells who holds it.
func (p *plain) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := p.s
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	g := &plainGrant{p: p, key: lockKey(s.prefix, req.Name), lease: req.Lease}
	value := strings.Join([]string{req.Lease, s.id, "0", strconv.FormatInt(time.Now().UnixMicro(), 10), s.newRecord(req.Holder, req.Why)}, " ")
	set, since, fail := s.server.Send(ctx, g.key, func(b rueidis.Builder) rueidis.Completed {
		return b.Set().Key(g.key).Value(value).Nx().PxMilliseconds(epoch.Ceil(req.TTL)).Build()
	})
	if fail == nil && set.Error() == nil {
		g.since = since
		return g, nil
	}
	var reply []rueidis.RedisMessage
	if fail == nil {
		reply, g.since, fail = p.run(ctx, plainExtend, []string{g.key}, req.Lease, epoch.Millis(req.TTL))
	}
	switch {
	case fail != nil && fail.Maybe:
		g.unsure = true
		return g, fail.Err
	case fail != nil:
		return nil, fail.Err
	case epoch.Code(reply) == 1:
		return g, nil
	}
	if err := p.held(ctx, req.Name, reply); !errors.Is(err, driver.ErrReleased) {
		return nil, err
	}
	return nil, driver.ErrHeld // it was, and has just ended
}

// held is as the function, and looks for those who hold a lock together. Not every
// user may do that, and it is a courtesy.
func (p *plain) held(ctx context.Context, name string, reply []rueidis.RedisMessage) error {
	err := held(name, reply)
	if len(reply) == 3 && errors.Is(err, driver.ErrReleased) {
		if pttl, _ := reply[2].AsInt64(); pttl != noKey {
			info, _ := p.s.Inspect(ctx, name)
			return &driver.HeldError{Info: info}
		}
	}
	return err
}

const noKey = -2 // what PTTL says if there is none

// held reads who holds a lock instead of the lease that a script was run for.
func held(name string, reply []rueidis.RedisMessage) error {
	var t turn
	if len(reply) >= 3 {
		t.value, _ = reply[1].ToString()
		t.pttl, _ = reply[2].AsInt64()
	}
	if len(reply) > 3 {
		t.sharers = parseSharers(reply[3])
	}
	if t.value == "" && t.sharers == nil {
		return driver.ErrReleased
	}
	return &driver.HeldError{Info: t.info(name)}
}

// Inspect implements driver.Inspector.
func (p *plain) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	return p.s.Inspect(ctx, name)
}

// List implements driver.Inspector.
func (p *plain) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	return p.s.List(ctx, prefix)
}

// Break implements driver.Inspector. A holder with Efficiency learns of it when it
// renews.
func (p *plain) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	s := p.s
	if err := s.usable(ctx, nil); err != nil {
		return err
	}
	if by == nil {
		by = &driver.Holder{}
	}
	key := lockKey(s.prefix, name)
	reply, _, fail := p.run(ctx, plainBreak, []string{key, key + brokenSuffix}, lease, s.prefix+"client:", newRecord(by, why), epoch.Millis(s.limit.Longest()))
	switch {
	case fail != nil:
		return fail.Err
	case epoch.Code(reply) == 1:
		return nil
	}
	return p.held(ctx, name, reply)
}

// Close implements driver.Driver.
func (p *plain) Close() error { return p.s.Close() }

// plainGrant is one lease, or an attempt of unknown outcome.
type plainGrant struct {
	p      *plain
	key    string
	lease  string
	since  driver.Instant
	unsure bool // the answer to the attempt did not come

	mu    sync.Mutex
	ended bool // released
	asked bool // a release was sent whose answer did not come
}

// Token implements driver.Grant.
func (g *plainGrant) Token() uint64 { return 0 }

// Since implements driver.Grant.
func (g *plainGrant) Since() driver.Instant { return g.since }

// Renew implements driver.Grant.
func (g *plainGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	switch err := g.p.s.checkTTL(ttl); {
	case err != nil:
		return 0, err
	case ended:
		return 0, driver.ErrReleased
	case g.unsure:
		return 0, driver.ErrUncertain
	}
	reply, since, fail := g.p.run(ctx, plainExtend, []string{g.key}, g.lease, epoch.Millis(ttl))
	switch {
	case fail != nil:
		return 0, fail.Err
	case epoch.Code(reply) == 1:
		return since, nil
	}
	if news := g.p.s.broken(ctx, g.key, g.lease); news != "" {
		return 0, readNews(news)
	}
	return 0, &driver.LostError{Reason: driver.Gone}
}

// Release implements driver.Grant. It is sent behind the attempt that it undoes, on
// the same connection unless that was lost.
func (g *plainGrant) Release(ctx context.Context) error {
	g.mu.Lock()
	ended, again := g.ended, g.asked || g.unsure
	g.mu.Unlock()
	if ended {
		return nil
	}
	reply, _, fail := g.p.run(ctx, plainRelease, []string{g.key}, g.lease)
	g.mu.Lock()
	defer g.mu.Unlock()
	if fail != nil {
		g.asked = g.asked || fail.Maybe
		return fail.Err
	}
	g.ended = true
	if epoch.Code(reply) != 1 && !again {
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}
