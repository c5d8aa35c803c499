// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

// stores maps the scheme of a store's URL to its constructor, which also
// completes the URL, and must have connected before ctx ends. It and blessings are
// the only places that know which stores there are.
var stores = map[string]func(context.Context, *storeURL, *pawl.Options) (*pawl.Client, error){
	"etcd":    openEtcd,
	"etcds":   openEtcd,
	"file":    openFile,
	"redis":   openRedis,
	"rediss":  openRedis,
	"redlock": openRedlock,
	"unix":    openRedis,
	"zk":      openZooKeeper,
	"zks":     openZooKeeper,
}

// blessings has what ends the wait of a store that may have forgotten leases.
var blessings = map[string]func(context.Context, *storeURL) error{
	"redis":   blessRedis,
	"rediss":  blessRedis,
	"redlock": blessRedlock,
	"unix":    blessRedis,
}

// storeURL is where a store is. It prints without passwords.
type storeURL struct {
	scheme string
	url    *url.URL
}

// parseStore parses the URL of a store. Its errors never contain more of the
// text than the scheme: the rest may be a password in an unexpected place.
func parseStore(text string) (*storeURL, error) {
	const hint = `use a URL such as file:///var/lock/pawl or redis://localhost:6379, or leave --store and $PAWL_STORE out`
	scheme, _, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) {
		return nil, fail(exitConfig, "the store is not a URL: it has no scheme", hint)
	}
	scheme = strings.ToLower(scheme)
	if stores[scheme] == nil {
		return nil, fail(exitConfig, fmt.Sprintf("unknown kind of store %q", shorten(scheme, 40)),
			"known are: "+strings.Join(slices.Sorted(maps.Keys(stores)), ", ")+"; write it as in redis://localhost:6379")
	}
	text, hosts := oneHost(scheme, text)
	u, err := url.Parse(text)
	// A / or ? in a password ends the part of the URL that it belongs to, and
	// leaves an @ over. In the name of a directory it is nothing special.
	if err != nil || scheme != "file" && u.User == nil && strings.Contains(text, "@") {
		return nil, fail(exitConfig, fmt.Sprintf("the URL of the %s store cannot be parsed", scheme),
			"ports are numbers, and special characters of a password are written as %xx; examples: pawl --help")
	}
	if hosts != "" {
		u.Host = hosts
	}
	return &storeURL{scheme, u}, nil
}

// oneHost cuts the several hosts of a redlock URL out of it, since a URL has only
// one, and leaves the first.
func oneHost(scheme, text string) (one, hosts string) {
	start := strings.Index(text, "//") + 2
	if scheme != "redlock" || start < 2 {
		return text, ""
	}
	end := len(text)
	if i := strings.IndexAny(text[start:], "/?#"); i >= 0 {
		end = start + i
	}
	start += strings.LastIndex(text[start:end], "@") + 1
	hosts = text[start:end]
	first, _, _ := strings.Cut(hosts, ",")
	return text[:start] + first + text[end:], hosts
}

// isScheme reports whether s is a scheme by RFC 3986.
func isScheme(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || !('0' <= r && r <= '9' || strings.ContainsRune("+-.", r))) {
			return false
		}
	}
	return s != ""
}

// String returns the URL without the password, and without query parameters
// that look like secrets.
func (s *storeURL) String() string {
	u := *s.url
	if u.User != nil {
		u.User = nil
		if name := s.url.User.Username(); name != "" {
			u.User = url.User(name)
		}
	}
	if u.RawQuery != "" {
		q := u.Query()
		for key := range q {
			if isSecret(key) {
				q.Del(key)
			}
		}
		u.RawQuery = q.Encode()
	}
	return u.String()
}

func isSecret(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "auth", "key"},
		func(word string) bool { return strings.Contains(key, word) })
}

// openFile opens a directory: file:///dir, file:dir, or file: for the default;
// with ?shared=true one that other users may write to.
func openFile(_ context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	u := s.url
	if u.User != nil || u.Host != "" && u.Host != "localhost" {
		return nil, fail(exitConfig, "a directory of another machine cannot be a store",
			"use three slashes: file:///var/lock/pawl")
	}
	shared, ok := fileSettings(u)
	if !ok {
		return nil, fail(exitConfig, "the only setting of a file store is ?shared=true",
			"write %3F or %23 if the directory's name contains ? or #")
	}
	dir := u.Path
	if u.Opaque != "" {
		var err error
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return nil, fail(exitConfig, "the path of the file store is badly escaped", "write %25 for a percent sign")
		}
	}
	dir, err := absolute(dir)
	if err != nil {
		return nil, fail(exitConfig, err.Error(), "name a directory: --store file:///var/lock/pawl")
	}
	s.url = &url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	if shared {
		s.url.RawQuery = "shared=true"
	}
	// The client itself stays silent: the command tells what happens to leases.
	warn := pawl.Options{Logger: slog.New(warnings{os.Stderr})}
	d, err := filelock.NewDriver(dir, &filelock.Options{Options: warn, AllowShared: shared})
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

// openRedis opens a Redis server. What its URL may contain is told by package
// redislock.
func openRedis(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	return redislock.Open(ctx, s.url.String(), redisOptions(ctx, opts))
}

func blessRedis(ctx context.Context, s *storeURL) error {
	return redislock.Bless(ctx, s.url.String(), redisOptions(ctx, &pawl.Options{}))
}

func redisOptions(ctx context.Context, opts *pawl.Options) *redislock.Options {
	own := &redislock.Options{Options: *opts}
	if end, ok := ctx.Deadline(); ok {
		own.ConnectTimeout = max(time.Until(end), time.Millisecond)
	}
	return own
}

// openZooKeeper opens an ensemble of ZooKeeper servers. What its URL may contain is
// told by package zklock. Sessions that are too short for the TTL are none of the
// business of who only looks, so it is not zklock.Open.
func openZooKeeper(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := &zklock.Options{Options: *opts}
	if end, ok := ctx.Deadline(); ok {
		// A bit earlier, to tell what was wrong.
		own.ConnectTimeout = max(time.Until(end)*9/10, time.Millisecond)
	}
	d, err := zklock.NewDriver(ctx, s.url.String(), own)
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

// openRedlock opens N Redis servers. What the URL may contain is told by package
// redlock.
func openRedlock(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := &redlock.Options{Options: *redisOptions(ctx, opts)}
	own.Logger = slog.New(warnings{os.Stderr})
	d, err := redlock.NewDriver(ctx, s.url.String(), own)
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

func blessRedlock(ctx context.Context, s *storeURL) error {
	return redlock.Bless(ctx, s.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}

// openEtcd opens an etcd cluster. What its URL may contain is told by package
// etcdlock.
func openEtcd(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := &etcdlock.Options{Options: *opts}
	if end, ok := ctx.Deadline(); ok {
		own.ConnectTimeout = max(time.Until(end), time.Millisecond)
	}
	return etcdlock.Open(ctx, s.url.String(), own)
}

// fileSettings reads what follows the directory.
func fileSettings(u *url.URL) (shared, ok bool) {
	switch {
	case u.Fragment != "" || u.RawFragment != "":
		return false, false
	case u.RawQuery == "":
		return false, true
	}
	return true, u.RawQuery == "shared=true"
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return filelock.DefaultDir()
	}
	return filepath.Abs(filepath.FromSlash(dir))
}

// store is an open store.
type store struct {
	*pawl.Client
	url *storeURL
}

// open opens the store that the user asked for, within connect.
func open(text string, connect time.Duration, opts *pawl.Options) (*store, error) {
	var client *pawl.Client
	u, err := reach(text, connect, func(ctx context.Context, u *storeURL) (err error) {
		client, err = stores[u.scheme](ctx, u, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &store{client, u}, nil
}

// reach calls f with the URL of the store that the user asked for and a context
// that ends after connect, and says what its error means.
func reach(text string, connect time.Duration, f func(context.Context, *storeURL) error) (*storeURL, error) {
	if connect <= 0 {
		return nil, usage(fmt.Sprintf("--connect-timeout %v is no time to connect", connect), "use something like 5s")
	}
	u, err := parseStore(cmp.Or(text, os.Getenv("PAWL_STORE"), "file:"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), connect)
	defer cancel()
	err = f(ctx, u)
	var failed *failure
	switch {
	case err == nil:
		return u, nil
	case errors.As(err, &failed):
		return nil, failed
	case ctx.Err() != nil:
		return nil, fail(exitUnavailable, fmt.Sprintf("%s does not answer within %v", u, connect),
			"check the address, whether the port is the store's and has the TLS that the URL says, and firewalls on the way; if it is slow: --connect-timeout 30s")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, pawl.ErrUnavailable):
		return nil, storeFailure(err, u.String())
	}
	return nil, fail(exitConfig, plain(err), "the store is now "+u.String()+"; see pawl --help")
}
