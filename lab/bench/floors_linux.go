// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/rueidis"
)

func init() {
	enlist(
		&contender{name: "SET NX PX + compare-delete", kind: floor, open: openRaw, direct: []string{"set"}},
		&contender{name: "5 × SET NX PX + compare-delete", kind: floor, open: openRaw, direct: []string{"set"}},
		&contender{name: "PUBLISH to delivery", kind: floor, open: openPublish, direct: []string{"publish"}},
	)
}

// dial returns a client with the same settings as in package redislock.
func dial(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, AlwaysPipelining: true, DisableCache: true, DisableRetry: true,
		PipelineMultiplex:  -1,
		ReadBufferEachConn: 1 << 16, WriteBufferEachConn: 1 << 16,
	})
}

func dialAll(addrs []string) (list []rueidis.Client, err error) {
	for _, addr := range addrs {
		c, err := dial(addr)
		if err != nil {
			closeAll(list)
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func closeAll(list []rueidis.Client) {
	for _, c := range list {
		c.Close()
	}
}

// raw makes only the two round trips that any lock in Redis needs, to all servers at the same time.
type raw struct{ clients []rueidis.Client }

var compareDelete = rueidis.NewLuaScript(`if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0`)

func openRaw(_ context.Context, w *world, _ seat) (locker, error) {
	clients, err := dialAll(w.Redis)
	return raw{clients}, err
}

var errNotAlone = errors.New("the key was not ours")

func (r raw) lock(ctx context.Context, name string) (func() error, uint64, error) {
	id := rand.Text()
	err := r.each(func(c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(name).Value(id).Nx().PxMilliseconds(30000).Build()).Error()
	})
	return func() error {
		return r.each(func(c rueidis.Client) error {
			n, err := compareDelete.Exec(context.Background(), c, []string{name}, []string{id}).AsInt64()
			if err == nil && n != 1 {
				err = errNotAlone
			}
			return err
		})
	}, 0, err
}

// each calls f for all servers at the same time, and waits for all calls.
func (r raw) each(f func(rueidis.Client) error) error {
	if len(r.clients) == 1 {
		return f(r.clients[0])
	}
	errs := make([]error, len(r.clients))
	var all sync.WaitGroup
	for i, c := range r.clients {
		all.Go(func() { errs[i] = f(c) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r raw) close() { closeAll(r.clients) }

// ring passes a message around among all seats. To release the lock, a seat sends a
// message to the next seat; to acquire it, a seat receives a message.
type ring struct {
	seat
	receive func(context.Context) error
	send    func(channel string) error
	end     func()
	first   sync.Once
}

func (s seat) channel(index int) string { return fmt.Sprint("ring_", index%s.Total) }

func (r *ring) lock(ctx context.Context, _ string) (func() error, uint64, error) {
	begin := false
	r.first.Do(func() { begin = r.Index == 0 })
	if !begin {
		if err := r.receive(ctx); err != nil {
			return nil, 0, err
		}
	}
	return func() error { return r.send(r.channel(r.Index + 1)) }, 0, nil
}

func (r *ring) close() { r.end() }

func openPublish(ctx context.Context, w *world, s seat) (locker, error) {
	both, err := dialAll([]string{w.Redis[0], w.Redis[0]})
	if err != nil {
		return nil, err
	}
	hear, speak := both[0], both[1]
	in, ready := make(chan struct{}, 1), make(chan struct{})
	conn, release := hear.Dedicate()
	conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(rueidis.PubSubMessage) { in <- struct{}{} },
		OnSubscription: func(rueidis.PubSubSubscription) { close(ready) },
	})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(s.channel(s.Index)).Build()).Error(); err != nil {
		release()
		return nil, err
	}
	wait := func(ctx context.Context, on chan struct{}) error {
		select {
		case <-on:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &ring{
		seat:    s,
		receive: func(ctx context.Context) error { return wait(ctx, in) },
		send: func(channel string) error {
			return speak.Do(context.Background(), speak.B().Publish().Channel(channel).Message("x").Build()).Error()
		},
		end: func() { closeAll(both) },
	}, wait(ctx, ready)
}
