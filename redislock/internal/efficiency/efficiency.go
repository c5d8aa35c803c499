// SPDX-License-Identifier: Apache-2.0

// Package efficiency is the driver for locks whose second holder does no harm: SET NX
// PX, and scripts that compare first. They are not bound to a run of a server, so a
// lock that the server has forgotten is granted again at once. It shares with the
// driver for correctness the layout and the inspection of locks.
package efficiency

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Participant is what a driver of this package shares with one of package redislock.
type Participant interface {
	driver.Inspector
	Close() error

	// Usable returns why a request, which may be nil, cannot be made. CheckTTL returns
	// why a TTL is not allowed.
	Usable(ctx context.Context, req *driver.Request) error
	CheckTTL(ttl time.Duration) error
	Send(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure)

	Key(name string) string // of the lock
	// Broken returns the key of the news of a broken lease, the channels' beginning, and how long to remember it.
	Broken(key string) (news, channel string, remember time.Duration)
	Value(req *driver.Request) string // of the lock
	Record(by *driver.Holder, why string) string
	// Held reads the holder of a lock from the reply to a script that was run for
	// another lease, or returns ErrReleased.
	Held(name string, reply []rueidis.RedisMessage) error
	// Lost returns why a lease that the server does not have has ended.
	Lost(ctx context.Context, key, lease string) error
}

// Driver is one participant.
type Driver struct{ Participant }

var _ driver.Inspector = (*Driver)(nil)

var (
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/break.lua
	breakLua string

	extend, release, brk = newUnbound(extendLua), newUnbound(releaseLua), newUnbound(breakLua)
)

// unbound is a script that is the same for all runs of all servers.
type unbound struct{ text, sha string }

func newUnbound(text string) *unbound {
	return &unbound{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))}
}

// run runs a script, and sends its text if the server does not know it.
func (d *Driver) run(ctx context.Context, script *unbound, keys []string, args ...string) ([]rueidis.RedisMessage, driver.Instant, *conn.Failure) {
	n := int64(len(keys))
	r, since, fail := d.Send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
		return b.Evalsha().Sha1(script.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
	})
	if refused, ok := rueidis.IsRedisErr(r.Error()); ok && refused.IsNoScript() {
		r, since, fail = d.Send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
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
func (d *Driver) Guarantees() driver.Guarantees {
	return driver.Guarantees{CrossHost: true, Expiry: true}
}

// TryAcquire implements driver.Driver. It overtakes waiters. If the lock is held, the
// holder may be an earlier attempt for the same lease whose answer was lost: the script
// that extends finds that out, or otherwise returns the holder.
func (d *Driver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := d.Usable(ctx, req); err != nil {
		return nil, err
	}
	g := &grant{d: d, key: d.Key(req.Name), lease: req.Lease}
	value := d.Value(req)
	set, since, fail := d.Send(ctx, g.key, func(b rueidis.Builder) rueidis.Completed {
		return b.Set().Key(g.key).Value(value).Nx().PxMilliseconds(epoch.Ceil(req.TTL)).Build()
	})
	if fail == nil && set.Error() == nil {
		g.since = since
		return g, nil
	}
	var reply []rueidis.RedisMessage
	if fail == nil {
		reply, g.since, fail = d.run(ctx, extend, []string{g.key}, req.Lease, epoch.Millis(req.TTL))
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
	if err := d.held(ctx, req.Name, reply); !errors.Is(err, driver.ErrReleased) {
		return nil, err
	}
	return nil, driver.ErrHeld // it was held, and has just ended
}

const noKey = -2 // what PTTL says if there is none

// held is Held, and adds the holders of a lock that several hold together. It ignores
// an error of that, as not every user may ask.
func (d *Driver) held(ctx context.Context, name string, reply []rueidis.RedisMessage) error {
	err := d.Held(name, reply)
	if len(reply) == 3 && errors.Is(err, driver.ErrReleased) {
		if pttl, _ := reply[2].AsInt64(); pttl != noKey {
			info, _ := d.Inspect(ctx, name)
			return &driver.HeldError{Info: info}
		}
	}
	return err
}

// Break implements driver.Inspector. A holder with Efficiency learns of it when it
// renews.
func (d *Driver) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if err := d.Usable(ctx, nil); err != nil {
		return err
	}
	if by == nil {
		by = &driver.Holder{}
	}
	key := d.Key(name)
	news, channel, remember := d.Broken(key)
	reply, _, fail := d.run(ctx, brk, []string{key, news}, lease, channel, d.Record(by, why), epoch.Millis(remember))
	switch {
	case fail != nil:
		return fail.Err
	case epoch.Code(reply) == 1:
		return nil
	}
	return d.held(ctx, name, reply)
}

// grant is one lease, or an attempt of unknown outcome.
type grant struct {
	d      *Driver
	key    string
	lease  string
	since  driver.Instant
	unsure bool // the attempt was not answered

	mu    sync.Mutex
	ended bool // released
	asked bool // a release was sent whose answer did not come
}

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return 0 }

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant { return g.since }

// Renew implements driver.Grant.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	switch err := g.d.CheckTTL(ttl); {
	case err != nil:
		return 0, err
	case ended:
		return 0, driver.ErrReleased
	case g.unsure:
		return 0, driver.ErrUncertain
	}
	reply, since, fail := g.d.run(ctx, extend, []string{g.key}, g.lease, epoch.Millis(ttl))
	switch {
	case fail != nil:
		return 0, fail.Err
	case epoch.Code(reply) == 1:
		return since, nil
	}
	return 0, g.d.Lost(ctx, g.key, g.lease)
}

// Release implements driver.Grant. It is sent behind the attempt that it undoes, on
// the same connection unless that was lost.
func (g *grant) Release(ctx context.Context) error {
	g.mu.Lock()
	ended, again := g.ended, g.asked || g.unsure
	g.mu.Unlock()
	if ended {
		return nil
	}
	reply, _, fail := g.d.run(ctx, release, []string{g.key}, g.lease)
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
