// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// efficient is the wire for locks whose second holder does no harm: SET NX PX, and scripts that compare first. They are not
// bound to a run of a server, so a lock that the server has forgotten is granted again at once. Waiters poll.
type efficient struct{ *store }

var (
	//go:embed lua/efficient_keep.lua
	keepEfficientLua string
	//go:embed lua/efficient_break.lua
	breakEfficientLua string

	keepEfficient, breakEfficient = newUnbound(keepEfficientLua), newUnbound(breakEfficientLua)
)

// unbound is a script that is the same for all runs of all servers.
type unbound struct{ text, sha string }

func newUnbound(text string) *unbound {
	return &unbound{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))}
}

// run runs a script, and sends its text if the server does not know it.
func (e efficient) run(ctx context.Context, script *unbound, keys []string, args ...string) ([]rueidis.RedisMessage, driver.Instant, *driver.Failure) {
	n := int64(len(keys))
	r, since, fail := e.server.Send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
		return b.Evalsha().Sha1(script.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
	})
	if refused, ok := rueidis.IsRedisErr(r.Error()); ok && refused.IsNoScript() {
		r, since, fail = e.server.Send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
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
		return nil, 0, garbled(err)
	}
	return reply, since, nil
}

// Caps implements driver.Store.
func (e efficient) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{CrossHost: true, Expiry: true}, Shows: true, LongerTTL: true}
}

// Hear implements driver.Store: there are no events.
func (e efficient) Hear(name string) (<-chan struct{}, func()) { return driver.Basic{}.Hear(name) }

// Ask implements driver.Store. It overtakes waiters. If the lock is held, the holder may be an earlier request for the same
// lease whose answer was lost: the script that renews finds that out, or else returns the holder.
func (e efficient) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if fail := e.check(req); fail != nil {
		return driver.Answer{}, fail
	}
	key := e.layout.Lock(req.Name)
	value := strings.Join([]string{req.Lease, e.id, "0", strconv.FormatInt(time.Now().UnixMicro(), 10), e.records.Of(req, false)}, " ")
	set, since, fail := e.server.Send(ctx, key, func(b rueidis.Builder) rueidis.Completed {
		return b.Set().Key(key).Value(value).Nx().PxMilliseconds(epoch.Ceil(req.TTL)).Build()
	})
	if fail != nil {
		return driver.Answer{}, fail
	}
	if set.Error() == nil {
		return driver.Answer{Granted: true, Since: since}, nil
	}
	reply, since, fail := e.run(ctx, keepEfficient, []string{key}, req.Lease, epoch.Millis(req.TTL))
	if fail != nil {
		return driver.Answer{}, fail
	}
	if epoch.Code(reply) == 1 {
		return driver.Answer{Granted: true, Since: since}, nil
	}
	ans := driver.Answer{Free: -1}
	var held *driver.HeldError
	if errors.As(e.held(ctx, req.Name, reply), &held) && held.Info != nil {
		ans.Holders = held.Info.Holders
	}
	return ans, nil
}

// held is heldBy, and adds the holders of a lock that several hold together. It ignores an error of that, as not every user
// may ask.
func (e efficient) held(ctx context.Context, name string, reply []rueidis.RedisMessage) error {
	err := heldBy(name, reply)
	if len(reply) == 3 && errors.Is(err, driver.ErrReleased) {
		if pttl, _ := reply[2].AsInt64(); pttl != noKey {
			info, _ := e.Inspect(ctx, name)
			return &driver.HeldError{Info: info}
		}
	}
	return err
}

// Renew implements driver.Store.
func (e efficient) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if err := e.checkTTL(ttl); err != nil {
		return driver.Renewal{}, &driver.Failure{Err: err, Lasting: true}
	}
	key := e.layout.Lock(l.Name)
	reply, since, fail := e.run(ctx, keepEfficient, []string{key}, l.Lease, epoch.Millis(ttl))
	switch {
	case fail != nil:
		return driver.Renewal{}, fail
	case epoch.Code(reply) == 1:
		left, _ := reply[len(reply)-1].AsInt64()
		return driver.Renewal{Since: since, Kept: time.Duration(left)*time.Millisecond >= ttl}, nil
	}
	return driver.Renewal{}, storekit.HowLost(e.broken(ctx, key, l.Lease))
}

// broken asks who has broken a lease. The lease has certainly ended, so it does not wait long for the answer; and not every
// user may ask.
func (e efficient) broken(ctx context.Context, key, lease string) (news string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	replies, err := e.server.Read(ctx, []string{key}, func(b rueidis.Builder, key string) []rueidis.Completed {
		return []rueidis.Completed{b.Get().Key(e.layout.Beside(key) + brokenSuffix).Build()}
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

// End implements driver.Store. It is sent behind the request that it undoes, on the same connection unless that was lost.
func (e efficient) End(ctx context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	reply, _, fail := e.run(ctx, keepEfficient, []string{e.layout.Lock(l.Name)}, l.Lease, "0")
	if fail != nil {
		return false, fail
	}
	return epoch.Code(reply) == 1, nil
}

// Break implements driver.Store. A holder with Efficiency learns of it when it renews.
func (e efficient) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if err := e.checkName(name); err != nil {
		return err
	}
	key := e.layout.Lock(name)
	who := storekit.Record{Holder: *cmp.Or(by, &driver.Holder{}), Why: why}.String()
	reply, _, fail := e.run(ctx, breakEfficient, []string{key, e.layout.Beside(key) + brokenSuffix}, lease, e.prefix+"client:", who, epoch.Millis(e.limit.Longest()))
	switch {
	case fail != nil:
		return fail.Err
	case epoch.Code(reply) == 1:
		return nil
	}
	return e.held(ctx, name, reply)
}
