// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/filelock"
)

// stores maps the scheme of a store's URL to its constructor, which also
// completes the URL, and must have connected before ctx ends. It, blessings and maxTTLs are
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

// maxTTLs has what changes the longest TTL of a store.
var maxTTLs = map[string]func(context.Context, *storeURL, time.Duration) error{
	"redis":   maxTTLRedis,
	"rediss":  maxTTLRedis,
	"redlock": maxTTLRedlock,
	"unix":    maxTTLRedis,
}

// openFile opens a directory: file:///dir, or file: for the default; with
// ?shared=true one that other users may write to. One that is relative would be
// another store in each working directory.
func openFile(_ context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	u := s.url
	if u.User != nil || u.Host != "" && u.Host != "localhost" {
		return nil, fail(exitConfig, "a directory of another machine cannot be a store",
			"use three slashes: file:///var/lib/pawl")
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
	dir, err := directory(dir, shared)
	if err != nil {
		return nil, fail(exitConfig, err.Error(), "name a directory: --store file:///var/lib/pawl")
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

func directory(dir string, shared bool) (string, error) {
	native := filepath.FromSlash(dir)
	switch {
	case dir == "" && shared:
		return "", errors.New("the default directory is for one user alone, and cannot be shared")
	case dir == "":
		return filelock.DefaultDir()
	case !strings.HasPrefix(dir, "/") && !filepath.IsAbs(native):
		return "", fmt.Errorf("file:%s is relative: it would be another store in each working directory", shorten(dir, 100))
	}
	return filepath.Abs(native)
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
	recallPasswords()
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
