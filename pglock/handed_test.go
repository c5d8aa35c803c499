// SPDX-License-Identifier: Apache-2.0

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
	for range 50 {
		time.Sleep(100 * time.Millisecond) // it waits now, unless the machine is busy
		tcp, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		pg, err := pgconn.Construct(&pgconn.HijackedConn{Conn: tcp, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		late := &conn{PgConn: pg, made: driver.Now()}
		if p.keep(late, true); late.IsClosed() {
			continue
		}
		if c := <-got; c != late {
			t.Errorf("the request has %v; want the connection", c)
		}
		return
	}
	t.Error("all connections were closed, while a request waits for one")
}
