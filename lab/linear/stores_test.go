// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linear_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/lab/linear"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/pglock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

func TestMemory(t *testing.T) {
	linear.Run(t, wiretest.Harness{Start: func(testing.TB) wiretest.Service {
		s := new(memlock.Store)
		return wiretest.Service{Open: func(testing.TB) driver.Store { return s.Participant() }}
	}})
}

func TestFiles(t *testing.T) {
	linear.Run(t, wiretest.Harness{Start: func(t testing.TB) wiretest.Service {
		dir := t.TempDir()
		return wiretest.Service{Open: func(t testing.TB) driver.Store { return must(filelock.NewStore(dir, nil))(t) }}
	}})
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// over is a service on servers. Open opens a participant at the addresses of its links.
func over(all []*servers.Server, open func(ctx context.Context, addrs string) (driver.Store, error)) wiretest.Service {
	var addrs []string
	for _, s := range all {
		addrs = append(addrs, s.Addr)
	}
	service := drivertest.OverLinks(strings.Join(addrs, ","), func(t testing.TB, addrs string) driver.Store { return must(open(t.Context(), addrs))(t) })
	service.Restart = func(t testing.TB) {
		for _, s := range all {
			if err := s.Restart(); err != nil {
				t.Error(err)
			}
		}
	}
	return service
}

func TestRedis(t *testing.T) {
	t.Parallel()
	const recovery = 4 * time.Second
	opts := &redislock.Options{MaxTTL: recovery, AssumeNew: true}
	opts.TTL = recovery
	linear.Run(t, wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			return over([]*servers.Server{&servers.StartRedis(t).Server}, func(ctx context.Context, addr string) (driver.Store, error) {
				return redislock.NewStore(ctx, "redis://"+addr, opts)
			})
		},
		Recovery: recovery,
	})
}

func TestRedlock(t *testing.T) {
	t.Parallel()
	opts := &redlock.Options{NodeTimeout: time.Second}
	opts.MaxTTL, opts.TTL = 5*time.Second, 5*time.Second
	linear.Run(t, wiretest.Harness{
		TTL: 2 * time.Second,
		Start: func(t testing.TB) wiretest.Service {
			var nodes []*servers.Server
			var addrs []string
			for range 3 {
				s := &servers.StartRedis(t).Server
				nodes, addrs = append(nodes, s), append(addrs, s.Addr)
			}

			if err := redlock.Bless(t.Context(), "redlock://"+strings.Join(addrs, ","), opts); err != nil {
				t.Fatal(err)
			}
			return over(nodes, func(ctx context.Context, addrs string) (driver.Store, error) {
				return redlock.NewStore(ctx, "redlock://"+addrs, opts)
			})
		},
		Recovery: opts.MaxTTL,
	})
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	opts := &zklock.Options{TickTime: 100 * time.Millisecond}
	opts.TTL = 12 * time.Second
	linear.Run(t, wiretest.Harness{
		TTL: opts.TTL,
		Start: func(t testing.TB) wiretest.Service {
			return over([]*servers.Server{&servers.StartZooKeeper(t, "tickTime=100").Server}, func(ctx context.Context, addr string) (driver.Store, error) {
				return zklock.NewStore(ctx, "zk://"+addr, opts)
			})
		},
	})
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	opts := new(etcdlock.Options)
	opts.TTL = 2 * time.Second
	linear.Run(t, wiretest.Harness{
		TTL: opts.TTL,
		Start: func(t testing.TB) wiretest.Service {
			return over([]*servers.Server{&servers.StartEtcd(t, 1)[0].Server}, func(ctx context.Context, addr string) (driver.Store, error) {
				return etcdlock.NewStore(ctx, "etcd://"+addr, opts)
			})
		},
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	opts := &pglock.Options{MaxTTL: time.Minute, ConnectTimeout: 30 * time.Second}
	linear.Run(t, wiretest.Harness{Start: func(t testing.TB) wiretest.Service {
		return over([]*servers.Server{&servers.StartPostgres(t).Server}, func(ctx context.Context, addr string) (driver.Store, error) {
			return pglock.NewStore(ctx, "postgres://pawl@"+addr+"/postgres?sslmode=disable", opts)
		})
	}})
}
