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
	must(t, err)
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
	must(t, err)
	c, err := New(t.Context(), pool, nil)
	must(t, err)
	defer c.Close()
	pool.Close()
	if _, err := c.Acquire(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	const listens = "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE usename = 'secret' AND locktype = 'advisory'"
	if !eventually(patience, func() bool { return sql(t, p, listens) == "1" }) {
		t.Error("no connection listens")
	}
	if a, d := asked.Load(), dialled.Load(); a < 2 || d < a {
		t.Errorf("the pool was asked for %d passwords and dialled %d times; want a password for each connection, of which one listens", a, d)
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
