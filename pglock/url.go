// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

func init() {
	pawl.Register("postgres", openByURL)
	pawl.Register("postgresql", openByURL)
}

// openByURL opens a store for pawl.Open.
func openByURL(ctx context.Context, url string, opts *pawl.Options) (driver.Store, error) {
	return NewStore(ctx, url, &Options{Options: *opts})
}

// address is a parsed URL, or a pool.
type address struct {
	shown  string // hosts and database, for error texts
	opts   Options
	config *pgconn.Config
	before func(context.Context) (*pgconn.Config, error) // see pool.before
	listen *pgconn.Config                                // nil means config
}

var errURL = errors.New("pglock: this is not a URL like postgres://user:password@host:5432/database; " +
	"a port is 1 to 65535; write special characters of the password as %xx")

// parseURL reads a URL. Its errors do not repeat the URL: the URL may contain a password, and if the syntax is
// wrong, nobody can tell where the password ends.
func parseURL(s string, opts *Options) (*address, error) {
	u, err := storekit.ParseURL(s)
	if err != nil {
		return nil, errURL
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("pglock: use a URL with the scheme postgres")
	}
	a := &address{opts: *opts}
	rest, err := a.params(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("pglock: %w", err)
	}
	u.RawQuery = rest
	if a.config, err = parseConfig(u, &a.opts); err != nil {
		return nil, err
	}
	a.shown = shown(a.config)
	return a, a.direct()
}

// direct reads Options.Listen.
func (a *address) direct() error {
	if a.opts.Listen == "" {
		return nil
	}
	u, err := storekit.ParseURL(a.opts.Listen)
	if err != nil {
		return errURL
	}
	a.listen, err = parseConfig(u, &a.opts)
	return err
}

// postgresParams are the parameters of PostgreSQL's clients. PostgreSQL takes any other as a setting of the
// server, such as search_path.
var postgresParams = strings.Fields(`host port database user password passfile sslmode sslkey sslcert sslcertmode sslrootcert
sslnegotiation sslpassword sslsni krbspn krbsrvname target_session_attrs service servicefile min_protocol_version
max_protocol_version channel_binding require_auth application_name options`)

// params reads the parameters of this package, and returns the others for PostgreSQL.
func (a *address) params(query string) (rest string, err error) {
	all, err := url.ParseQuery(query)
	if err != nil {
		return "", storekit.ErrQuery
	}
	ours := []storekit.Param{
		storekit.Set("schema", &a.opts.Schema, storekit.Text),
		storekit.Set("max_ttl", &a.opts.MaxTTL, storekit.Duration),
		storekit.Set("mode", &a.opts.Mode, func(v string) (Mode, error) { return Mode(v), nil }),
		storekit.Set("listen", &a.opts.Listen, storekit.Text),
		storekit.Set("max_conns", &a.opts.MaxConns, storekit.Int),
		storekit.Set("password_file", &a.opts.Password, storekit.ReadPassword),
		// A duration, as in the other stores. PostgreSQL's connect_timeout is a number of seconds.
		storekit.Set("connect_timeout", &a.opts.ConnectTimeout, func(v string) (time.Duration, error) {
			if _, err := strconv.Atoi(v); err == nil {
				v += "s"
			}
			return storekit.Duration(v)
		}),
	}
	mine := url.Values{}
	take := func(name string) {
		if v, ok := all[name]; ok {
			mine[name] = v
			delete(all, name)
		}
	}
	take("ttl") // ReadQuery refuses it
	known := slices.Clone(postgresParams)
	for _, p := range ours {
		take(p.Name)
		known = append(known, p.Name)
	}
	for name := range all {
		if err := storekit.Misspelt(name, known); err != nil {
			return "", err
		}
	}
	return all.Encode(), storekit.ReadQuery(mine.Encode(), ours...)
}

// parseConfig lets pgconn read a URL, with PostgreSQL's variables and files.
func parseConfig(u *url.URL, opts *Options) (*pgconn.Config, error) {
	full := *u
	full.Path = cmp.Or(u.Path, "/") // pgconn needs the slash after the hosts, even if no database follows
	conf, err := pgconn.ParseConfig(full.String())
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil && !strings.Contains(cause.Error(), "postgres") {
			return nil, fmt.Errorf("pglock: %w", storekit.OfKind(storekit.ErrConfig, cause))
		}
		return nil, errURL
	}
	if _, ok := u.User.Password(); !ok {
		conf.Password = cmp.Or(opts.Password, os.Getenv(passwordEnv), conf.Password)
	}
	name(conf)
	return conf, nil
}

// name sets the name by which the server shows the connection, if it has none.
func name(conf *pgconn.Config) {
	if conf.RuntimeParams["application_name"] == "" {
		conf.RuntimeParams["application_name"] = "pawl"
	}
}

// shown returns the hosts and the database, for error texts.
func shown(conf *pgconn.Config) string { return strings.Join(hosts(conf), ", ") + "/" + conf.Database }

// hosts returns the addresses in a configuration. A host may be in it twice: with and without TLS.
func hosts(conf *pgconn.Config) (all []string) {
	add := func(host string, port uint16) {
		if _, socket := pgconn.NetworkAddress(host, port); strings.HasPrefix(host, "/") {
			host = socket // another port is another server
		} else {
			host = net.JoinHostPort(host, strconv.Itoa(int(port)))
		}
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	add(conf.Host, conf.Port)
	for _, f := range conf.Fallbacks {
		add(f.Host, f.Port)
	}
	return all
}
