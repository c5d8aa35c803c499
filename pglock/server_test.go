// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
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
		common.server, common.err = servers.BeginPostgres(servers.Memory(), nil)
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.server
}

// wide is for all tests on the common server: the first one sets MaxTTL.
var wide = &Options{MaxTTL: time.Hour}

// open returns a participant that is closed when the test ends.
func open(t testing.TB, url string, opts *Options) *store {
	t.Helper()
	d, err := NewDriver(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*store)
}

// sql runs statements as the owner of the server.
func sql(t testing.TB, p *servers.Postgres, statements string) string {
	t.Helper()
	out, err := p.SQL(statements)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
