// SPDX-License-Identifier: Apache-2.0

// Package stores opens the store at the user's URL. If it cannot, its errors say why and what to do.
package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/nested"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/redislock"
	_ "github.com/pawl-go/pawl/redislock/redlock"
	_ "github.com/pawl-go/pawl/zklock"
)

// openStore opens the store at u. It completes the URL of a directory in u, because messages print
// that. If create is set, it creates a missing directory and warns, because the name may be misspelt.
func openStore(ctx context.Context, u *URL, opts *pawl.Options, create bool) (*Store, error) {
	own := *opts
	// The client gets no logger, because the command itself tells what happens to leases.
	own.Logger = slog.New(warnings{os.Stderr})
	made := ""
	if u.Scheme == "file" {
		dir, shared, err := filelock.ParseURL(u.url.String())
		if err != nil {
			return nil, exit.Fail(exit.Config, err.Error(), "name a directory: --store file:///var/lib/pawl")
		}
		u.url = &url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
		if shared {
			u.url.RawQuery = "shared=true"
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !shared {
			if !create {
				return nil, exit.Fail(exit.Config, "the directory "+dir+" does not exist: no lock was ever taken there", "check --store; pawl run creates it")
			}
			made = dir
		}
	}
	d, err := pawl.OpenStore(ctx, u.within(ctx), &own)
	if err != nil {
		return nil, err
	}
	if made != "" {
		own.Logger.Warn("created the directory " + made + " for locks")
	}
	quiet := *opts
	if quiet.Observer.Closed == nil { // the command itself says that the store grants nothing
		quiet.Observer.Closed = func(pawl.Event) {}
	}
	client, err := pawl.New(d, &quiet)
	if err != nil {
		return nil, err
	}
	return &Store{Client: client, URL: u, Wire: d}, nil
}

// within returns the URL with a connect_timeout that ends a bit before ctx does, so that the
// store can still say what went wrong. It leaves a connect_timeout that the URL has, and
// adds none for a directory.
func (s *URL) within(ctx context.Context) string {
	end, ok := ctx.Deadline()
	if !ok || s.Scheme == "file" || s.url.Query().Has("connect_timeout") {
		return s.Secret()
	}
	u := *s.url
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += "connect_timeout=" + max(time.Until(end)*9/10, time.Millisecond).String()
	return withSlashes(&u)
}

// ListTime limits the time for listing all locks. A full server takes long.
const ListTime = time.Minute

// Store is an open store.
type Store struct {
	*pawl.Client
	URL        *URL
	Wire       driver.Store // the store below Client
	Flag       string       // the result of SameStore
	KeepLeases bool         // Close does not release the leases, because their ids have been printed
}

// Close closes the store. Unless KeepLeases is set, it releases all leases, as Client.Close does.
func (s *Store) Close() error {
	if s.KeepLeases {
		return s.Wire.Close()
	}
	return s.Client.Close()
}

// Show returns the command that shows a lock.
func (s *Store) Show(name string) string { return "pawl show " + display.Quote(name) + s.Flag }

// Open opens the store at the URL text, or the default store, within the time connect. See openStore for create.
func Open(text string, connect time.Duration, opts *pawl.Options, create bool) (*Store, error) {
	var s *Store
	_, err := Reach(text, connect, func(ctx context.Context, u *URL) (err error) {
		if s, err = openStore(ctx, u, opts, create); err == nil {
			s.Flag = SameStore(text)
		}
		return err
	})
	return s, err
}

// Chosen returns the URL of the store: text, or $PAWL_STORE, or the default directory.
func Chosen(text string) (*URL, error) {
	return Parse(cmp.Or(text, os.Getenv("PAWL_STORE"), "file:"))
}

// Reach calls f with the URL of the store (see Chosen) and a context that ends after
// connect. It returns the URL, or a failure that says what f's error means.
func Reach(text string, connect time.Duration, f func(context.Context, *URL) error) (*URL, error) {
	if connect <= 0 {
		return nil, exit.Usage(fmt.Sprintf("--connect-timeout %v is not positive", connect), "use something like 5s")
	}
	nested.RecallPasswords()
	u, err := Chosen(text)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), connect)
	defer cancel()
	err = f(ctx, u)
	var failed *exit.Failure
	switch {
	case err == nil:
		return u, nil
	case errors.As(err, &failed):
		return nil, failed
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return nil, exit.Fail(exit.Unavailable, fmt.Sprintf("%s does not answer within %v", u, connect),
			"check address, port, TLS and firewalls; if the store is slow, use --connect-timeout 30s")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, pawl.ErrUnavailable):
		return nil, exit.OfStore(err, u.String())
	}
	return nil, exit.Fail(exit.Config, exit.Plain(err), "the store is "+u.String()+"; see pawl --help")
}

// warnings is a log handler that prints each warning of a store as a line, in the
// same form as other warnings of pawl.
type warnings struct{ w io.Writer }

func (h warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	text := "pawl: warning: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(h.w, display.Printable(text))
	return err
}

func (h warnings) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h warnings) WithGroup(string) slog.Handler      { return h }

// RedisOptions returns options whose ConnectTimeout is the time that ctx has left.
func RedisOptions(ctx context.Context) *redislock.Options {
	own := new(redislock.Options)
	if end, ok := ctx.Deadline(); ok {
		own.ConnectTimeout = max(time.Until(end), time.Millisecond)
	}
	return own
}
