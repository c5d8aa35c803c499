// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl"
)

// resolver is which name server was asked.
var resolver = regexp.MustCompile(`(lookup \S+) on \S+:\d+`)

// TestDialErrors: whoever cannot connect is told why in one sentence, once, however many
// addresses were tried, with TLS and without.
func TestDialErrors(t *testing.T) {
	t.Parallel()
	p := server(t)
	sql(t, p, "CREATE USER nameless; CREATE USER reader; ALTER ROLE reader SET default_transaction_read_only = on")
	readOnly := p.Addr + ": read only connection: this is a replica: name the primary, or all hosts with commas between them; or transactions are read-only for this user: ALTER ROLE … SET default_transaction_read_only = off"
	for url, want := range map[string]string{
		"postgres://nobody@" + p.Addr + "/postgres":          p.Addr + `: FATAL: role "nobody" does not exist (SQLSTATE 28000): check the user, as in postgres://USER@HOST/DATABASE, and the server's pg_hba.conf`,
		"postgres://pawl@" + p.Addr + "/none":                p.Addr + `: FATAL: database "none" does not exist (SQLSTATE 3D000): name a database that exists`,
		"postgres://nameless@" + p.Addr:                      p.Addr + `: FATAL: database "nameless" does not exist (SQLSTATE 3D000): name a database that exists, as in postgres://HOST/postgres: without a name PostgreSQL opens the database that is named like the user`,
		"postgres://pawl@127.0.0.1:1/postgres":               "127.0.0.1:1: connection refused: is the server running, and is this its address?",
		"postgres://pawl@127.0.0.1:1,127.0.0.1:2/postgres":   "127.0.0.1:1: connection refused; 127.0.0.1:2: connection refused: is the server running, and is this its address?",
		"postgres://pawl@127.0.0.1:1," + p.Addr + "/none":    "127.0.0.1:1: connection refused; " + p.Addr + `: FATAL: database "none" does not exist (SQLSTATE 3D000): name a database that exists`,
		"postgres://pawl@there.is.none.invalid:1/postgres":   "lookup there.is.none.invalid: no such host: check the name of the host",
		"postgres://pawl@/postgres?host=/none":               "/none/.s.PGSQL.5432: no such file or directory: is the server running, and is this the directory of its socket?",
		"postgres://pawl@" + p.Addr + "/?sslmode=require":    p.Addr + ": server refused TLS connection: this server has no TLS: use sslmode=prefer",
		"postgres://pawl@" + p.Addr + "/postgres?speed=high": p.Addr + `: FATAL: unrecognized configuration parameter "speed" (SQLSTATE 42704): the URL has a parameter that neither pawl nor the server knows: check its spelling`,
		p.URL("reader"): readOnly,
		p.URL("reader") + "&target_session_attrs=read-write": readOnly,
	} {
		_, err := NewStore(t.Context(), url, nil)
		if err == nil {
			t.Errorf("%s: no error", url)
			continue
		}
		got := resolver.ReplaceAllString(err.Error(), "$1")
		if want = "pglock: store unavailable: " + want; got != want {
			t.Errorf("%s: %v\nwant %s", url, got, want)
		}
	}
	if err := hint(errors.New("invalid body length: expected at most 1 MiB")); !strings.Contains(err.Error(), "is this a PostgreSQL server?") {
		t.Errorf("what another server answers: %v", err)
	}
	for query, want := range map[string]string{
		"ttl=5s":        "set Options.TTL in Go, or --ttl",
		"max_conns=few": `max_conns: "few" is not a whole number`,
	} {
		if _, err := NewStore(t.Context(), "postgres://h/?"+query, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}

// TestMaybe: what the server refused was rolled back. If it has ended the connection with that,
// or a pooler has lost the server, the request may have been carried out.
func TestMaybe(t *testing.T) {
	s := &store{ctx: t.Context()}
	for _, c := range []struct {
		severity, code string
		maybe          bool
	}{
		{"ERROR", "42501", false}, {"ERROR", "40P01", false}, {"ERROR", "25006", false},
		{"FATAL", "53200", true}, {"PANIC", "XX000", true}, {"ERROR", "08006", true}, {"ERROR", "57P01", true},
	} {
		f := s.classify(t.Context(), &pgconn.PgError{Severity: c.severity, Code: c.code})
		if f.Maybe != c.maybe || f.refused == c.maybe {
			t.Errorf("%s %s: %+v", c.severity, c.code, f)
		}
	}
	if f := s.classify(t.Context(), unsent{errors.New("x")}); f.Maybe {
		t.Error("a statement that was not sent may have been carried out")
	}
}

// TestReplaced: another server, and an earlier timeline of the same one, lack leases.
func TestReplaced(t *testing.T) {
	s := new(store)
	s.run.Store(run{"a", 2})
	for is, want := range map[run]bool{{"a", 2}: false, {"a", 3}: false, {"a", 1}: true, {"b", 2}: true, {"b", 3}: true} {
		if got := s.replaced(is) != nil; got != want {
			t.Errorf("replaced by %v: %v", is, got)
		}
	}
}

// TestMisspelt: a parameter that is like one of ours or of PostgreSQL's clients is refused. Any other is a setting of the
// server, which knows best.
func TestMisspelt(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://h/db?shema=x":           "did you mean schema?",
		"postgres://h/db?max-ttl=5m":        "did you mean max_ttl?",
		"postgres://h/db?sslmod=require":    "did you mean sslmode?",
		"postgres://h/db?aplication_name=x": "did you mean application_name?",
		"postgres://h/db?search_path=x&work_mem=1MB&statement_timeout=0&role=r&timezone=UTC&sslmode=disable": "",
	} {
		if _, err := parseURL(url, &Options{}); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", url, err, want)
		}
	}
}

// TestRefusals: what a role's own settings refuse is not said of the server.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ code, message, want string }{
		{"57014", "canceling statement due to statement timeout", "SET statement_timeout"},
		{"25006", "cannot execute INSERT in a read-only transaction", "default_transaction_read_only"},
	} {
		if err := refused(&pgconn.PgError{Severity: "ERROR", Code: c.code, Message: c.message}).Err; !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.code, err, c.want)
		}
	}
	if err := refused(&pgconn.PgError{Code: "57014", Message: "canceling statement due to user request"}).Err; strings.Contains(err.Error(), "SET") {
		t.Errorf("a statement that somebody has cancelled: %v", err)
	}
}

// TestVariables: a URL that says nothing is completed by PostgreSQL's variables.
func TestVariables(t *testing.T) {
	t.Setenv("PGHOST", "127.0.0.1")
	t.Setenv("PGPORT", "1")
	for _, url := range []string{"postgres://", "postgres:///", "postgres://?sslmode=disable"} {
		if _, err := NewStore(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1: connection refused") {
			t.Errorf("%s: %v; want that the server of the variables refuses", url, err)
		}
	}
}

// TestOptionsAreCopied: a client that connects later does so with the options that Open was called with.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	opts := &Options{}
	locks, err := Open(t.Context(), "postgres://pawl@127.0.0.1:1/postgres", opts)
	must(t, err)
	defer locks.Close()
	opts.Schema = "a{b\n" // which is refused
	if err := locks.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("Ping = %v; want ErrUnavailable, as the options were right when Open was called", err)
	}
}

// unsent is an error of package pgconn from before anything was sent.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }
