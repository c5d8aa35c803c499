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
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// efficient is the store for Mode Efficiency. It locks with SET NX PX, and renews and releases with scripts that compare
// the lease first. The scripts work on any run of a server, so a server that has forgotten a lock grants it again at once.
// Waiters poll.
type efficient struct{ *store }

var (
	//go:embed lua/efficient_keep.lua
	keepEfficientLua string

	keepEfficient, breakEfficient = newUnbound(keepEfficientLua), newUnbound(epoch.Unbound(scripts[breakScript].Text))
)

// unbound is a script whose text does not depend on the run of the server.
type unbound struct{ text, sha string }

func newUnbound(text string) *unbound {
	return &unbound{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))}
}

// send sends a command about a key. It returns the answer, which may be nil, and an instant before the command was sent.
func (e efficient) send(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (r rueidis.RedisResult, since driver.Instant, fail *driver.Failure) {
	since = driver.Now()
	r = e.server.Send(ctx, key, cmd)
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		fail = conn.Classify(ctx, err)
	}
	return r, since, fail
}

// run runs a script, and sends its text if the server does not know it.
func (e efficient) run(ctx context.Context, script *unbound, keys []string, args ...string) ([]rueidis.RedisMessage, driver.Instant, *driver.Failure) {
	n := int64(len(keys))
	r, since, fail := e.send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
		return b.Evalsha().Sha1(script.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
	})
	if refused := conn.Refused(r.Error()); refused != nil && refused.IsNoScript() {
		r, since, fail = e.send(ctx, keys[0], func(b rueidis.Builder) rueidis.Completed {
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

// Hear implements driver.Store. Efficiency has no events.
func (e efficient) Hear(name string) (<-chan struct{}, func()) { return driver.Basic{}.Hear(name) }

// Ask implements driver.Store. It overtakes waiters. If SET NX finds the lock held, an earlier request for the same lease
// may have succeeded and its answer may have been lost. So Ask then runs the script that renews, which renews in that
// case, and otherwise returns the holder.
func (e efficient) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if fail := e.check(req); fail != nil {
		return driver.Answer{}, fail
	}
	key := e.layout.Lock(req.Name)
	value := strings.Join([]string{req.Lease, e.id, "0", strconv.FormatInt(time.Now().UnixMicro(), 10), e.records.Of(req, false)}, " ")
	set, since, fail := e.send(ctx, key, func(b rueidis.Builder) rueidis.Completed {
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
	if value, _ := reply[1].ToString(); value != "" {
		pttl, _ := reply[2].AsInt64()
		ans.Holders = []driver.Held{parseHeld(value, pttl, time.Now())}
	} else if info, err := e.Inspect(ctx, req.Name); err == nil { // several leases hold the lock; some users may not ask for them
		ans.Holders = info.Holders
	}
	return ans, nil
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

// broken asks who has broken a lease. The lease has certainly ended, so broken waits for a second at most. It ignores
// errors, since some users lack the right to ask.
func (e efficient) broken(ctx context.Context, key, lease string) (news string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	key = e.layout.Beside(key) + brokenSuffix
	text, _ := e.server.Send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() }).ToString()
	victim, news, _ := strings.Cut(text, " ")
	if victim != lease {
		return ""
	}
	return news
}

// End implements driver.Store. It follows the request for the lease on the same connection, so the server executes it
// last. If that connection is lost, the order is not certain; see Efficiency.
func (e efficient) End(ctx context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	reply, _, fail := e.run(ctx, keepEfficient, []string{e.layout.Lock(l.Name)}, l.Lease, "0")
	if fail != nil {
		return false, fail
	}
	return epoch.Code(reply) == 1, nil
}
