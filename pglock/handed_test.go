// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
)

// TestLateConnectionIsHanded: a connection whose request has given up goes to a request that waits for one, although others
// have all the places. Otherwise no request gets one on a link on which each gives up before it is connected.
func TestLateConnectionIsHanded(t *testing.T) {
	t.Parallel()
	config, err := pgconn.ParseConfig("postgres://pawl@127.0.0.1/pawl")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := newPool(t.Context(), config, 1, time.Minute, nil)
	p.dials <- struct{}{} // of the request that has given up
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan *conn, 1)
	go func() {
		c, _ := p.get(ctx)
		got <- c
	}()
	tcp, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	pg, err := pgconn.Construct(&pgconn.HijackedConn{Conn: tcp, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(patience, func() bool { return len(p.slots) == 1 }) {
		t.Fatal("the request does not come")
	}
	late := &conn{PgConn: pg, made: driver.Now()}
	p.keep(late, 0)
	if c := <-got; c != late {
		t.Errorf("the request has %v; want the connection", c)
	}
}
