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

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// stores maps the scheme of a store's URL to its constructor, which also
// completes the URL. It is the only place that knows which stores there are.
var stores = map[string]func(*storeURL, *pawl.Options) (*pawl.Client, error){
	"file":    openFile,
	"redis":   openRedis,
	"rediss":  openRedis,
	"unix":    openRedis,
	"redlock": openRedlock,
}

// storeURL is where a store is. It prints without passwords.
type storeURL struct {
	scheme string
	url    *url.URL
}

// parseStore parses the URL of a store. Its errors never contain more of the
// text than the scheme: the rest may be a password in an unexpected place.
func parseStore(text string) (*storeURL, error) {
	const hint = `use a URL such as file:///var/lock/pawl, or leave --store and $PAWL_STORE out`
	scheme, _, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) {
		return nil, fail(exitConfig, "the store is not a URL: it has no scheme", hint)
	}
	scheme = strings.ToLower(scheme)
	if stores[scheme] == nil {
		return nil, fail(exitConfig, fmt.Sprintf("unknown kind of store %q", shorten(scheme, 40)),
			"known are: "+strings.Join(slices.Sorted(maps.Keys(stores)), ", "))
	}
	text, hosts := oneHost(scheme, text)
	u, err := url.Parse(text)
	// A / or ? in a password ends the part of the URL that it belongs to, and
	// leaves an @ over. In the name of a directory it is nothing special.
	if err != nil || scheme != "file" && u.User == nil && strings.Contains(text, "@") {
		return nil, fail(exitConfig, fmt.Sprintf("the URL of the %s store cannot be parsed", scheme), hint)
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
		u.User = url.User(u.User.Username())
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
func openFile(s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
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
func openRedis(s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := pawl.Options{TTL: opts.TTL, Logger: slog.New(warnings{os.Stderr})}
	d, err := redislock.NewDriver(context.Background(), s.url.String(), &redislock.Options{Options: own})
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

// openRedlock opens N Redis servers. What the URL may contain is told by package
// redlock.
func openRedlock(s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := new(redlock.Options)
	own.TTL, own.Logger = opts.TTL, slog.New(warnings{os.Stderr})
	d, err := redlock.NewDriver(context.Background(), s.url.String(), own)
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
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

// open opens the store that the user asked for.
func open(text string, opts *pawl.Options) (*store, error) {
	u, err := parseStore(cmp.Or(text, os.Getenv("PAWL_STORE"), "file:"))
	if err != nil {
		return nil, err
	}
	client, err := stores[u.scheme](u, opts)
	if err == nil {
		return &store{client, u}, nil
	}
	var f *failure
	switch {
	case errors.As(err, &f):
		return nil, f
	case errors.Is(err, fs.ErrPermission), errors.Is(err, pawl.ErrUnavailable):
		return nil, storeFailure(err, u.String())
	}
	return nil, fail(exitConfig, strings.TrimPrefix(err.Error(), "pawl: "), "the store is now "+u.String()+"; see pawl --help")
}
