// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

const retry = 3 * time.Millisecond // of those that ask again and again

// together are the clients that count together on one key: other libraries, and pawl with the pattern of their key.
var together = map[string]func(ctx context.Context, w *world, s seat) (locker, error){
	"redsync":       openRedsync(retry),
	"bsm/redislock": openBSM(retry),
	"SET NX PX":     again(openRaw),
	"rueidislock":   again(openTry),
	"concurrency":   openEtcdMutex,
	"go-zookeeper":  openZKLock,

	"pawl": withPattern(func(ctx context.Context, w *world, pattern string) (*pawl.Client, error) {
		return redislock.Open(ctx, "redis://"+w.Redis[0]+"?pattern="+pattern, nil)
	}),
	"pawl with Efficiency": withPattern(func(ctx context.Context, w *world, pattern string) (*pawl.Client, error) {
		return redislock.Open(ctx, "redis://"+w.Redis[0], &redislock.Options{Pattern: pattern, Mode: redislock.Efficiency})
	}),
	"pawl on three": withPattern(func(ctx context.Context, w *world, pattern string) (*pawl.Client, error) {
		return redlock.Open(ctx, "redlock://"+strings.Join(w.Redis, ",")+"?pattern="+pattern, nil)
	}),
	"pawl on etcd": withPattern(func(ctx context.Context, w *world, pattern string) (*pawl.Client, error) {
		return etcdlock.Open(ctx, "etcd://"+w.Etcd+"?pattern="+pattern, nil)
	}),
	"pawl on ZooKeeper": withPattern(func(ctx context.Context, w *world, pattern string) (*pawl.Client, error) {
		return zklock.Open(ctx, "zk://"+w.ZK+"/"+strings.TrimSuffix(pattern, "/*"), nil)
	}),
}

// patterned is pawl with the pattern of a key: the name is what follows the last colon or slash.
type patterned struct {
	*world
	open func(ctx context.Context, w *world, pattern string) (*pawl.Client, error)
	c    *pawl.Client
}

func withPattern(open func(ctx context.Context, w *world, pattern string) (*pawl.Client, error)) func(context.Context, *world, seat) (locker, error) {
	return func(_ context.Context, w *world, _ seat) (locker, error) {
		return &patterned{world: w, open: open}, nil
	}
}

func (p *patterned) lock(ctx context.Context, key string) (func() error, uint64, error) {
	i := strings.LastIndexAny(key, ":/") + 1
	if p.c == nil {
		var err error
		if p.c, err = p.open(ctx, p.world, key[:i]+"*"); err != nil {
			return nil, 0, err
		}
	}
	release, token, err := pawlClient{c: p.c}.lock(ctx, key[i:])
	return func() error {
		err := release()
		if errors.Is(err, pawl.ErrLost) {
			return nil // a process that had no processor for a claim; whether that did harm is for the mark to say
		}
		return err
	}, token, err
}

func (p *patterned) close() {}

// patient asks again and again for what others have.
type patient struct{ locker }

func again(open func(context.Context, *world, seat) (locker, error)) func(context.Context, *world, seat) (locker, error) {
	return func(ctx context.Context, w *world, s seat) (locker, error) {
		l, err := open(ctx, w, s)
		return patient{l}, err
	}
}

func (p patient) lock(ctx context.Context, key string) (func() error, uint64, error) {
	for {
		unlock, _, err := p.locker.lock(ctx, key)
		if !rueidis.IsRedisNil(err) && !errors.Is(err, rueidislock.ErrNotLocked) && !errors.Is(err, context.DeadlineExceeded) {
			return unlock, 0, err
		}
		time.Sleep(retry)
	}
}

// tries is rueidislock with the key of a KeyMajority of 1: of more keys it needs most. It does not wait
// by WithContext: that was seen to sleep on when one of ours had let go and nobody came after it.
type tries struct{ rueidisLocker }

func openTry(ctx context.Context, w *world, s seat) (locker, error) {
	l, err := openRueidis(1)(ctx, w, s)
	return tries{l.(rueidisLocker)}, err
}

func (l tries) lock(ctx context.Context, key string) (func() error, uint64, error) {
	_, cancel, err := l.l.TryWithContext(ctx, strings.TrimPrefix(key, "rueidislock:0:"))
	return func() error { cancel(); return nil }, 0, err
}
