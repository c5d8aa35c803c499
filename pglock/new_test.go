// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
)

// TestNewOfPool: a program that has a pool names no address, password or TLS configuration
// again. Its password is made for each connection, and its dialer makes all of them.
func TestNewOfPool(t *testing.T) {
	t.Parallel()
	p, _, _ := secureServer(t)
	conf, err := pgxpool.ParseConfig("postgres://secret@" + p.Addr + "/postgres?sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	var asked, dialled atomic.Int32
	var expired atomic.Bool
	conf.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		asked.Add(1)
		if expired.Load() {
			return errors.New("no new password")
		}
		c.Password = "pa/ss"
		return nil
	}
	dial := conf.ConnConfig.DialFunc
	conf.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		return dial(ctx, network, addr)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	var clients []*pawl.Client
	for range 2 {
		c, err := New(t.Context(), pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	pool.Close()
	held, err := clients[0].Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan error, 1)
	go func() {
		lease, err := clients[1].Acquire(t.Context(), "job")
		if err == nil {
			err = lease.Release(t.Context())
		}
		next <- err
	}()
	if !eventually(patience, func() bool {
		info, err := clients[0].Inspect(t.Context(), "job")
		return err == nil && len(info.Waiters) == 1
	}) {
		t.Error("nobody waits")
	}
	if err := errors.Join(held.Release(t.Context()), <-next); err != nil {
		t.Errorf("a hand-over: %v", err)
	}
	listens := sql(t, p, "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE usename = 'secret' AND locktype = 'advisory'")
	if a, d := asked.Load(), dialled.Load(); a < 3 || d < a || listens == "0" {
		t.Errorf("the pool was asked for %d passwords and dialled %d times, and %s connections listen; want each connection made with a password of its own by that dialer, and one that listens", a, d, listens)
	}
	expired.Store(true)
	late, err := New(t.Context(), pool, nil)
	if err == nil {
		defer late.Close()
		err = late.Ping(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "no new password") {
		t.Errorf("New and Ping = %v; want the error of BeforeConnect", err)
	}
	for what, err := range map[string]error{
		"a nil pool": newError(New(t.Context(), nil, nil)),
		"a password": newError(New(t.Context(), pool, &Options{Password: "x"})),
	} {
		if err == nil || !strings.Contains(err.Error(), "leave Options.Password empty") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func newError(_ *pawl.Client, err error) error { return err }
