// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func init() {
	set := []string{"set"}
	for _, nodes := range []string{"", " N=5"} {
		enlist(
			&contender{name: "redsync" + nodes, open: openRedsync(0), direct: set},
			&contender{name: "redsync" + nodes + ", 5 ms", open: openRedsync(5 * time.Millisecond), direct: set},
		)
	}
	enlist(
		// By default redislock does not wait. Its own example retries every 100 ms.
		&contender{name: "redislock, 100 ms", open: openBSM(100 * time.Millisecond)},
		&contender{name: "redislock, 5 ms", open: openBSM(5 * time.Millisecond)},
		&contender{name: "rueidislock", open: openRueidis(2)},
		// This is the best setting that is fair. With NoLoopTracking, which its README advises, one
		// goroutine got the lock each time, and the others waited without end.
		&contender{name: "rueidislock, tuned", open: openRueidis(1)},
	)
}

// redsyncLocker has a go-redis client for each server, as in redsync's README.
type redsyncLocker struct {
	rs      *redsync.Redsync
	clients []*redis.Client
	opts    []redsync.Option
}

func openRedsync(delay time.Duration) func(context.Context, *world, seat) (locker, error) {
	return func(_ context.Context, w *world, _ seat) (locker, error) {
		l := &redsyncLocker{opts: []redsync.Option{redsync.WithExpiry(leaseTTL)}}
		if delay > 0 {
			l.opts = append(l.opts, redsync.WithRetryDelay(delay))
		}
		var pools []syncredis.Pool
		for _, addr := range w.Redis {
			c := redis.NewClient(&redis.Options{Addr: addr})
			l.clients = append(l.clients, c)
			pools = append(pools, goredis.NewPool(c))
		}
		l.rs = redsync.New(pools...)
		return l, nil
	}
}

func (l *redsyncLocker) lock(ctx context.Context, name string) (func() error, uint64, error) {
	for {
		m := l.rs.NewMutex(name, l.opts...)
		err := m.LockContext(ctx)
		if err == nil {
			return func() error {
				ok, err := m.Unlock()
				if err == nil && !ok {
					err = errors.New("redsync: not unlocked")
				}
				return err
			}, 0, nil
		}
		var taken *redsync.ErrTaken
		if ctx.Err() != nil || !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken) {
			return nil, 0, err
		}
	}
}

func (l *redsyncLocker) close() {
	for _, c := range l.clients {
		_ = c.Close()
	}
}

type bsmLocker struct {
	client *redis.Client
	locks  *bsm.Client
	delay  time.Duration
}

func openBSM(delay time.Duration) func(context.Context, *world, seat) (locker, error) {
	return func(_ context.Context, w *world, _ seat) (locker, error) {
		c := redis.NewClient(&redis.Options{Addr: w.Redis[0]})
		return &bsmLocker{client: c, locks: bsm.New(c), delay: delay}, nil
	}
}

func (l *bsmLocker) lock(ctx context.Context, name string) (func() error, uint64, error) {
	for {
		lock, err := l.locks.Obtain(ctx, name, leaseTTL, &bsm.Options{RetryStrategy: bsm.LinearBackoff(l.delay)})
		if err == nil {
			return func() error { return lock.Release(context.Background()) }, 0, nil
		}
		// Obtain stops waiting after the TTL if ctx has no deadline.
		if ctx.Err() != nil || !errors.Is(err, bsm.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded) {
			return nil, 0, err
		}
	}
}

func (l *bsmLocker) close() { _ = l.client.Close() }

type rueidisLocker struct{ l rueidislock.Locker }

func openRueidis(majority int32) func(context.Context, *world, seat) (locker, error) {
	return func(_ context.Context, w *world, _ seat) (locker, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: w.Redis[:1]},
			KeyMajority:  majority,
			KeyValidity:  leaseTTL,
		})
		return rueidisLocker{l}, err
	}
}

func (l rueidisLocker) lock(ctx context.Context, name string) (func() error, uint64, error) {
	_, unlock, err := l.l.WithContext(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	return func() error { unlock(); return nil }, 0, nil
}

func (l rueidisLocker) close() { l.l.Close() }
