// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestPostgres: in a PostgreSQL database the commands do what they do on files.
func TestPostgres(t *testing.T) {
	w := newWorld(t)
	p := servers.StartPostgres(t)
	w.serves("postgres://pawl:s3cret@"+p.Addr+"/postgres?sslmode=disable", p.Addr, "deploy/prod", "5s")
	p1 := w.pawl("max-ttl", "-s", p.URL("pawl"), "2m")
	p1.end(0)
	w.pawl("bless", "-s", p.URL("pawl")+"&max_ttl=2m", "--yes").end(0)
	for _, c := range []struct {
		store, want string
		code        int
	}{
		{"postgres://me:s3cret@" + p.Addr + "/postgres?sslmode=disable", "check the user", exitDenied},
		{"postgres://pawl:s3cret@" + p.Addr + "/none?sslmode=disable", "name a database that exists", exitConfig},
		{"postgres://pawl:s3cret@127.0.0.1:1/postgres", "is the server running", exitUnavailable},
		{"postgres://pawl:s3cret@" + p.Addr + "/postgres?mode=quick", "there is no Mode", exitConfig},
	} {
		no := w.pawl("run", "-s", c.store, "deploy", "true")
		no.end(c.code)
		if got := no.stderr(); !strings.Contains(got, c.want) || strings.Contains(got, "s3cret") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: stderr is %q; want one line with %q", c.store, got, c.want)
		}
	}
}
