// SPDX-License-Identifier: Apache-2.0

//go:build linux

package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

const retry = 3 * time.Millisecond // of those that ask again and again

// lockers make what locks a key, by the kind of the process.
var lockers = map[string]func(key string, addrs []string) (func() (func() error, error), error){
	"redsync":       oldRedsync,
	"bsm/redislock": oldBSM,
	"SET_NX_PX":     oldSetNX,
	"rueidislock":   oldRueidis,

	// What a program with pawl sets for these keys is the pattern.
	"pawl": func(key string, addrs []string) (func() (func() error, error), error) {
		pattern, name := split(key)
		c, err := redislock.Open(context.Background(), "redis://"+addrs[0]+"?pattern="+pattern, nil)
		return opened(c, err, name)
	},
	"pawl_with_Efficiency": func(key string, addrs []string) (func() (func() error, error), error) {
		pattern, name := split(key)
		c, err := redislock.Open(context.Background(), "redis://"+addrs[0], &redislock.Options{Pattern: pattern, Mode: redislock.Efficiency})
		return opened(c, err, name)
	},
	"pawl_on_three": func(key string, addrs []string) (func() (func() error, error), error) {
		pattern, name := split(key)
		c, err := redlock.Open(context.Background(), "redlock://"+strings.Join(addrs, ",")+"?pattern="+pattern, nil)
		return opened(c, err, name)
	},
}

// split returns the pattern and the name of a key: the name is what follows the last colon.
func split(key string) (pattern, name string) {
	i := strings.LastIndexByte(key, ':') + 1
	return key[:i] + "*", key[i:]
}

func oldRedsync(key string, addrs []string) (func() (func() error, error), error) {
	var pools []syncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: addr})))
	}
	rs := redsync.New(pools...)
	return func() (func() error, error) {
		m := rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1_000_000), redsync.WithRetryDelay(retry))
		if err := m.Lock(); err != nil {
			return nil, err
		}
		return func() error {
			ok, err := m.Unlock()
			if err == nil && !ok {
				err = errors.New("the lock was not its own any more")
			}
			return err
		}, nil
	}, nil
}

func oldBSM(key string, addrs []string) (func() (func() error, error), error) {
	c := bsm.New(redis.NewClient(&redis.Options{Addr: addrs[0]}))
	return func() (func() error, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // it does not wait for longer than the TTL otherwise
		defer cancel()
		l, err := c.Obtain(ctx, key, ttl, &bsm.Options{RetryStrategy: bsm.LinearBackoff(retry), Metadata: "of an old program"})
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(context.Background()) }, nil
	}, nil
}

// oldSetNX is what programs without a library do.
func oldSetNX(key string, addrs []string) (func() (func() error, error), error) {
	ctx, c := context.Background(), redis.NewClient(&redis.Options{Addr: addrs[0]})
	unlock := redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)
	return func() (func() error, error) {
		value := rand.Text()
		for {
			ok, err := c.SetNX(ctx, key, value, ttl).Result()
			if err != nil {
				return nil, err
			}
			if ok {
				break
			}
			time.Sleep(retry)
		}
		return func() error {
			n, err := unlock.Run(ctx, c, []string{key}, value).Int()
			if err == nil && n != 1 {
				err = errors.New("the lock was not its own any more")
			}
			return err
		}, nil
	}, nil
}

// oldRueidis has the key of a KeyMajority of 1: of more keys it needs most. It does not wait
// by WithContext: that was seen to sleep on when one of ours had let go and nobody came after it.
func oldRueidis(key string, addrs []string) (func() (func() error, error), error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: addrs}, KeyMajority: 1, KeyValidity: ttl,
	})
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(key, "rueidislock:0:")
	return func() (func() error, error) {
		for {
			_, cancel, err := locker.TryWithContext(context.Background(), name)
			if err == nil {
				return func() error { cancel(); return nil }, nil
			}
			if !errors.Is(err, rueidislock.ErrNotLocked) && !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			time.Sleep(retry)
		}
	}, nil
}
