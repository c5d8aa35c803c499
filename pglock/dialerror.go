// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
)

// dialFailure returns the failure for an error of a connection attempt.
func dialFailure(err error) *driver.Failure {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return &driver.Failure{Err: hint(err), Silent: true}
	}
	said := hint(err)
	is := refusal(pe, said)
	return &driver.Failure{Err: is, Lasting: is != said}
}

// tlsHint is the advice if one side refuses the other's certificate.
const tlsHint = "name the authority of the server's certificate with sslrootcert, and the client's own with sslcert and sslkey; see sslmode"

// hint returns an error that says why there is no connection, and what to do. It does not wrap err, which may be
// the error of a context that is not the caller's.
func hint(err error) error {
	text := strings.Join(reasons(err), "; ")
	for _, c := range []struct{ part, hint string }{
		{"(SQLSTATE 28P01)", "check the user and the password"},
		{"(SQLSTATE 28000)", "check the user, as in postgres://USER@HOST/DATABASE, and the server's pg_hba.conf"},
		{"(SQLSTATE 3D000)", "name a database that exists"},
		{"(SQLSTATE 42704)", "the URL has a parameter that neither pawl nor the server knows: check its spelling"},
		{"(SQLSTATE 53300)", "the server has no connections left: raise max_connections, use PgBouncer, or a smaller max_conns"},
		{"tls: ", tlsHint},
		{"x509: ", tlsHint},
		{"read only connection", "this is a replica: name the primary, or all hosts with commas between them; or transactions are read-only for this user: ALTER ROLE … SET default_transaction_read_only = off"},
		// Among several hosts, the error of one that answers tells more.
		{"connection refused", "is the server running, and is this its address?"},
		{"no such file or directory", "is the server running, and is this the directory of its socket?"},
		{"no such host", "check the name of the host"},
		{"invalid body length", "is this a PostgreSQL server?"},
		{"deadline exceeded", "is a firewall in between?"},
		{"i/o timeout", "is a firewall in between?"},
		{noTLS, "this server has no TLS: use sslmode=prefer"},
	} {
		if !strings.Contains(text, c.part) {
			continue
		}
		var failed *pgconn.ConnectError
		switch errors.As(err, &failed); {
		case failed == nil:
		case c.part == "(SQLSTATE 3D000)" && failed.Config.Database == "":
			c.hint += ", as in postgres://HOST/postgres: without a name PostgreSQL opens the database that is named like the user"
		case c.part == "(SQLSTATE 28P01)" && failed.Config.Password == "":
			c.hint = "no password was given: put it into the URL, as postgres://USER:PASSWORD@HOST/DATABASE, into a file named by ?password_file=, or into " + passwordEnv
		}
		return errors.New(text + ": " + c.hint)
	}
	return errors.New(text)
}

const noTLS = "server refused TLS connection"

// reasons returns why each attempt has failed, each reason once. A host may have several addresses, and
// sslmode=prefer tries each with TLS and then without. reasons leaves out that a server has no TLS, if there is
// another reason.
func reasons(err error) (all []string) {
	attempts := []error{err}
	var failed *pgconn.ConnectError
	if errors.As(err, &failed) {
		for e := failed.Unwrap(); e != nil; e = errors.Unwrap(e) {
			if joined, ok := e.(interface{ Unwrap() []error }); ok {
				attempts = joined.Unwrap()
			}
		}
	}
	for _, e := range attempts {
		if why := reason(e); !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	more := slices.DeleteFunc(slices.Clone(all), func(why string) bool { return strings.Contains(why, noTLS) })
	if len(more) > 0 {
		return more
	}
	return all
}

// reason returns the address and the innermost error of an attempt. pgconn writes the address as "ADDRESS (HOST):
// ".
func reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	addr, rest, _ := strings.Cut(text, " (")
	host, _, ok := strings.Cut(rest, "): ")
	if !ok || strings.Contains(addr, " ") {
		return text
	}
	if _, port, err := net.SplitHostPort(addr); err == nil {
		addr = net.JoinHostPort(host, port)
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return addr + ": " + err.Error()
}
