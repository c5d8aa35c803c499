// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestPostgres: in a PostgreSQL database the commands do what they do on files.
func TestPostgres(t *testing.T) {
	w := newWorld(t)
	p := servers.StartPostgres(t)
	w.serves("postgres://pawl:s3cret@"+p.Addr+"/postgres?sslmode=disable", p.Addr, "deploy/prod", "5s")
	w.pawl("max-ttl", "-s", p.URL("pawl"), "2m").end(0)
	w.pawl("bless", "-s", p.URL("pawl")+"&max_ttl=2m", "--yes").end(0)
	w.refuses([]refusal{
		{"postgres://me:s3cret@" + p.Addr + "/postgres?sslmode=disable", "check the user", exit.Denied},
		{"postgres://pawl:s3cret@" + p.Addr + "/none?sslmode=disable", "name a database that exists", exit.Config},
		{"postgres://pawl:s3cret@127.0.0.1:1/postgres", "is the server running", exit.Unavailable},
		{"postgres://pawl:s3cret@" + p.Addr + "/postgres?mode=quick", "there is no Mode", exit.Config},
	}, "run deploy true")
}

// TestKeptByATransaction: a name whose lease has ended, but that a transaction keeps which the
// lease guards, is told as that by every command.
func TestKeptByATransaction(t *testing.T) {
	w := newWorld(t)
	p := servers.StartPostgres(t)
	url := p.URL("pawl") + "&application_name=billing"
	locks, err := pawl.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	lease, err := locks.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(t.Context())
	if err == nil {
		err = lease.Guard(t.Context(), tx)
	}
	if err != nil {
		t.Fatal(err)
	}
	process := fmt.Sprintf("server process %d (\"billing\")", db.PgConn().PID())
	end := fmt.Sprintf("SELECT pg_terminate_backend(%d)", db.PgConn().PID())
	for _, c := range []struct {
		words string
		code  int
		want  []string
	}{
		{"break deploy --force --why test", 0, []string{`broke "deploy"`, "warning: an open transaction", process, end}},
		{"break deploy --force --why test", exit.Busy, []string{"the lease has ended, but an open transaction", process, end}},
		{"break deploy --why test --lease " + lease.ID(), exit.Busy, []string{"the lease has ended, but an open transaction", process, end}},
		{"show deploy", 0, []string{"an open transaction that it guards keeps the name: " + process, end}},
		{"show deploy --json", 0, []string{`"held": true`, fmt.Sprintf(`"pid": %d`, db.PgConn().PID())}},
		{"ls", 0, []string{"has ended, but an open transaction keeps it: " + process}},
		{"wait deploy --wait 100ms", exit.Busy, []string{"that lease has ended, and an open transaction that it guards keeps the name: " + process}},
		{"run -n deploy true", exit.Busy, []string{"that lease has ended, and an open transaction that it guards keeps the name: " + process}},
		{"doctor", 1, []string{`"deploy" is kept by an open transaction`, process, end}},
	} {
		words := strings.Fields(c.words)
		did := w.pawl(slices.Insert(words, 1, "-s", p.URL("pawl"))...)
		did.end(c.code)
		got := strings.Join(strings.Fields(did.stdout()+did.stderr()), " ")
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("pawl %s: %s\nwant %q", c.words, got, want)
			}
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pawl("wait", "deploy", "-n", "-s", p.URL("pawl")).end(0)
}
