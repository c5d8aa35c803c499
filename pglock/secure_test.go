// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// secureServer is a server with TLS. The user certified has to show a certificate, the
// user secret a password; both are let in with TLS only.
func secureServer(t *testing.T) (p *servers.Postgres, cert, key string) {
	t.Helper()
	p = servers.StartPostgres(t)
	sql(t, p, "CREATE USER certified SUPERUSER; CREATE USER secret SUPERUSER PASSWORD 'pa/ss'")
	cert, key, _ = servers.Certificate(t)
	info, err := os.Stat(p.Dir)
	must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	put := func(name string, data []byte) {
		t.Helper()
		file := filepath.Join(p.Dir, name)
		must(t, errors.Join(os.WriteFile(file, data, 0o600), os.Chown(file, int(owner.Uid), int(owner.Gid))))
	}
	for name, from := range map[string]string{"server.crt": cert, "server.key": key} {
		data, err := os.ReadFile(from)
		must(t, err)
		put(name, data)
	}
	put("pg_hba.conf", []byte("hostssl all certified all trust clientcert=verify-ca\nhostssl all secret all scram-sha-256\nhost all pawl all trust\n"))
	p.Kill()
	p.Args = append(p.Args, "-c", "ssl=on", "-c", "ssl_ca_file=server.crt")
	must(t, p.Start())
	return p, cert, key
}

// TestTLS: everything goes over TLS, the connection that listens too, with the certificates
// that PostgreSQL's own parameters name.
func TestTLS(t *testing.T) {
	t.Parallel()
	p, cert, key := secureServer(t)
	files := "&sslrootcert=" + cert + "&sslcert=" + cert + "&sslkey=" + key
	url := "postgres://certified@" + p.Addr + "/postgres?sslmode=verify-full" + files
	d, other := open(t, url, wide), open(t, url, wide)
	g := take(t, d, "x", time.Minute)
	next := waits(t, other, "x")
	d.listening(t)
	other.listening(t)
	if n := sql(t, p, "SELECT count(*) FILTER (WHERE ssl) >= 4, count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'certified'"); n != "t|0" {
		t.Errorf("four connections with TLS, and how many without: %s; want two to ask, and two to listen", n)
	}
	release(t, g)
	release(t, next())
	_, port, _ := strings.Cut(p.Addr, ":")
	for url, want := range map[string]string{
		"postgres://certified@" + p.Addr + "/postgres?sslmode=verify-full":                                                          "with sslrootcert",
		"postgres://certified@localhost:" + port + "/postgres?sslmode=verify-full" + files:                                          "with sslrootcert",
		"postgres://certified@" + p.Addr + "/postgres?sslmode=verify-full&sslrootcert=" + cert:                                      "certificate",
		"postgres://certified@" + p.Addr + "/postgres?sslmode=disable":                                                              "pg_hba.conf",
		"postgres://certified@" + p.Addr + "/postgres?sslmode=verify-full&sslrootcert=/no/such/file":                                "no such file",
		"postgres://secret:wrong@" + p.Addr + "/postgres?sslmode=verify-full&sslrootcert=" + cert:                                   "check the user and the password",
		"postgres://secret@" + p.Addr + "/postgres?sslmode=verify-full&sslrootcert=" + cert + "&password_file=" + filepath.Dir(key): "password_file",
		"postgres://secret@" + p.Addr + "/postgres":                                                                                 "password authentication failed for user \"secret\" (SQLSTATE 28P01): no password was given: put it into the URL, as postgres://USER:PASSWORD@HOST/DATABASE, into a file named by ?password_file=, or into PAWL_POSTGRES_PASSWORD",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		d, err := NewStore(ctx, url, wide)
		cancel()
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v; want an error with %q", url, err, want)
		}
	}
	with := *wide
	with.Password = "pa/ss"
	for _, c := range []struct {
		user string
		opts *Options
	}{{"secret:pa%2Fss", wide}, {"secret", &with}} {
		d := open(t, "postgres://"+c.user+"@"+p.Addr+"/postgres?sslmode=verify-full&sslrootcert="+cert, c.opts)
		release(t, take(t, d, c.user, time.Minute))
	}
}
