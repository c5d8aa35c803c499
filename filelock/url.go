// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func init() { pawl.Register("file", openByURL) }

func openByURL(_ context.Context, text string, opts *pawl.Options) (driver.Store, error) {
	dir, shared, err := ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("filelock: %w", err)
	}
	return NewStore(dir, &Options{Options: *opts, AllowShared: shared})
}

// ParseURL returns the directory of a URL, for Open, and whether to set Options.AllowShared. The URL has one of
// these forms:
//
//	file:                         DefaultDir, which is made if it is missing
//	file:///directory
//	file:///directory?shared=true
//
// The directory must be absolute. A relative one would be a different store in each working directory.
func ParseURL(text string) (dir string, shared bool, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" {
		return "", false, errors.New("this is not a URL like file:///var/lib/app")
	}
	shared = u.RawQuery == "shared=true"
	switch {
	case u.User != nil, u.Host != "" && u.Host != "localhost":
		return "", false, errors.New("a directory of another machine cannot be a store: use three slashes: file:///var/lib/pawl")
	case u.Query().Has("ttl"):
		return "", false, errors.New("ttl: the TTL is no parameter of the URL: set Options.TTL in Go, or --ttl of the command")
	case u.RawQuery != "" && !shared, u.Fragment != "":
		return "", false, errors.New("the only setting of a file store is ?shared=true: write %3F or %23 if the directory's name contains ? or #")
	}
	if dir, err = pathOf(u); err != nil || dir != "" {
		return dir, shared, err
	}
	if shared {
		return "", false, errors.New("the default directory is for one user alone, and cannot be shared: name another one")
	}
	dir, err = DefaultDir()
	return dir, false, err
}

// pathOf returns the directory in a URL, or "" if there is none.
func pathOf(u *url.URL) (string, error) {
	dir, err := url.PathUnescape(u.Opaque)
	if u.Opaque == "" {
		dir = u.Path
	}
	switch {
	case err != nil:
		return "", errors.New("the path of the file store is badly escaped: write %25 for a percent sign")
	case dir == "":
		return "", nil
	case !strings.HasPrefix(dir, "/") && !filepath.IsAbs(filepath.FromSlash(dir)):
		return "", fmt.Errorf("file:%s is relative: it would be another store in each working directory", driver.Shorten(dir))
	}
	return filepath.Abs(dir)
}
