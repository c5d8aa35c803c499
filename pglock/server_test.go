// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

func TestMain(m *testing.M) {
	if _, err := servers.PostgresBin(); err != nil {
		fmt.Fprintln(os.Stderr, "pglock:", err)
		os.Exit(1)
	}
	flag.Parse()
	drivertest.Parallel()
	code := m.Run()
	if s := common.server; s != nil {
		s.Remove()
	}
	os.Exit(code)
}

// patience is for what nothing but a machine that is overloaded delays.
const patience = 45 * time.Second

var eventually = servers.Eventually

// common is the server of all tests that do not disturb it.
var common struct {
	once   sync.Once
	server *servers.Postgres
	err    error
}

func server(t testing.TB) *servers.Postgres {
	t.Helper()
	common.once.Do(func() {
		common.server, common.err = servers.BeginPostgres(servers.Memory(), nil, "-c", "max_connections=1000")
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.server
}

// wide is for all tests on the common server: the first one sets MaxTTL.
var wide = &Options{MaxTTL: time.Hour}

// client is a participant and its wire.
type client struct {
	*participant.Participant
	wire *store
}

func (c *client) Adopt(ctx context.Context, name, lease string) (*participant.Adopted, error) {
	return participant.Adopt(ctx, c.wire, name, lease)
}

// listening waits until messages can be heard, or never will be.
func (c *client) listening(t testing.TB) {
	t.Helper()
	ready, _ := c.wire.Hear("")
	select {
	case <-ready:
	case <-time.After(patience):
		t.Fatal("there is no connection to listen on")
	}
}

// waits has a client wait for a name, and returns when it is in the queue, with a function that returns
// its lease.
func waits(t testing.TB, d *client, name string) (lease func() *participant.Lease) {
	t.Helper()
	type result struct {
		lease *participant.Lease
		err   error
	}
	got := make(chan result, 1)
	go func() {
		g, err := d.Acquire(t.Context(), request(name, time.Minute))
		got <- result{g, err}
	}()
	if !eventually(patience, func() bool {
		info, err := d.Inspect(t.Context(), name)
		return err == nil && len(info.Waiters) == 1
	}) {
		t.Fatal("nobody waits")
	}
	return func() *participant.Lease {
		t.Helper()
		select {
		case r := <-got:
			if r.err != nil {
				t.Fatalf("Acquire = %v", r.err)
			}
			return r.lease
		case <-time.After(patience):
			t.Fatal("the waiter does not get the name")
		}
		return nil
	}
}

// connect returns a connection of its own to a server.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// hearing makes the server believe that a client listens.
func hearing(t testing.TB, p *servers.Postgres, client string) {
	t.Helper()
	ear := connect(t, p.URL("pawl"))
	if _, err := ear.Exec(t.Context(), "SELECT pg_advisory_lock_shared(hashtextextended('pawl:"+client+"', 0))"); err != nil {
		t.Fatal(err)
	}
}

// ref returns the lease that holds a name.
func ref(t testing.TB, c *client, name string) driver.Ref {
	t.Helper()
	h := holders(t, c, name)
	if len(h) != 1 {
		t.Fatalf("%s has the holders %+v; want one", name, h)
	}
	return driver.Ref{Name: name, Lease: h[0].Lease, Shared: h[0].Shared, Slots: h[0].Slots}
}

// urlOf returns the URL of a server, or of a link to one.
func urlOf(addr string) string { return "postgres://pawl@" + addr + "/postgres?sslmode=disable" }

// open returns a participant that is closed when the test ends.
func open(t testing.TB, url string, opts *Options) *client {
	t.Helper()
	o := Options{ConnectTimeout: patience} // for a slow machine
	if opts != nil {
		o = *opts
		o.ConnectTimeout = cmp.Or(o.ConnectTimeout, patience)
	}
	d, err := NewStore(context.Background(), url, &o)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return &client{participant.New(d, participant.Options{}), d.(*store)}
}

// sql runs statements as the owner of the server.
func sql(t testing.TB, p *servers.Postgres, statements string) string {
	t.Helper()
	out, err := p.SQL(statements)
	must(t, err)
	return out
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
