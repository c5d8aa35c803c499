// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// OpenFunc opens the store at url as one participant. It may change opts, which is a copy,
// where the URL says something else. Its errors must contain no password; Open says that
// they are of op "open".
type OpenFunc func(ctx context.Context, url string, opts *Options) (driver.Store, error)

// opened has the schemes that Register was called for.
var opened = struct {
	sync.RWMutex
	by map[string]OpenFunc
}{by: make(map[string]OpenFunc)}

// packages are those that register the schemes of our own stores, below path.
var packages = map[string]string{
	"etcd":       "etcdlock",
	"etcds":      "etcdlock",
	"file":       "filelock",
	"mem":        "memlock",
	"postgres":   "pglock",
	"postgresql": "pglock",
	"redis":      "redislock",
	"rediss":     "redislock",
	"redlock":    "redislock/redlock",
	"unix":       "redislock",
	"zk":         "zklock",
	"zks":        "zklock",
}

const path = "github.com/pawl-go/pawl"

// Register makes a kind of store known to Open, by the scheme of its URLs in lower case.
// Packages of stores call it when they are initialized. It panics if the scheme is none,
// is registered already, or if open is nil.
func Register(scheme string, open OpenFunc) {
	opened.Lock()
	defer opened.Unlock()
	switch {
	case open == nil:
		panic("pawl: Register of " + scheme + " without a function")
	case !isScheme(scheme) || scheme != strings.ToLower(scheme):
		panic("pawl: Register of " + scheme + ", which is no scheme in lower case")
	case opened.by[scheme] != nil:
		panic("pawl: Register was called twice for the scheme " + scheme)
	}
	opened.by[scheme] = open
}

// Schemes returns the schemes that Open knows, in order.
func Schemes() []string {
	opened.RLock()
	defer opened.RUnlock()
	return slices.Sorted(maps.Keys(opened.by))
}

// Open returns a client of the store at url, such as redis://localhost:6379 or
// file:///var/lib/app. The program must import the package of the store, with a blank
// import if it uses nothing else of it:
//
//	import _ "github.com/pawl-go/pawl/redislock"
//
// The Open function of that package says what its URLs contain; it has options that are
// about its kind of store, too, and goes without a registry. Errors contain no password.
// If the package was not imported, the error names it. The other errors are those of the
// package's Open and of New. If the store is unavailable at that moment the client connects
// when it is used: see Ping.
func Open(ctx context.Context, url string, opts *Options) (*Client, error) {
	open, err := find(url)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	own := copyOf(opts)
	return Connect(ctx, func(ctx context.Context) (driver.Store, error) { return open(ctx, url, own) }, own)
}

// OpenStore is Open for callers that wrap the store before they pass it to New. It connects,
// and does not change opts.
func OpenStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	return openStore(ctx, url, copyOf(opts))
}

func openStore(ctx context.Context, url string, own *Options) (driver.Store, error) {
	open, err := find(url)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	d, err := open(ctx, url, own)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	return d, nil
}

func copyOf(opts *Options) *Options {
	if opts == nil {
		return &Options{}
	}
	own := *opts
	return &own
}

// find returns what opens the store at url. Its errors repeat no more than the scheme: the
// rest may be a password in an unexpected place.
func find(url string) (OpenFunc, error) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok || !isScheme(scheme) {
		return nil, errors.New("this is not the URL of a store, as it has no scheme: write one such as file:///var/lib/app or redis://localhost:6379")
	}
	scheme = strings.ToLower(scheme)
	opened.RLock()
	open := opened.by[scheme]
	opened.RUnlock()
	if open != nil {
		return open, nil
	}
	if home := packages[scheme]; home != "" {
		return nil, fmt.Errorf(`nothing is registered for the scheme %s: import _ "%s/%s"; if your module lacks it: go get %[2]s/%[3]s`, scheme, path, home)
	}
	known := "none: blank-import the package of your store"
	if all := Schemes(); len(all) > 0 {
		known = strings.Join(all, ", ")
	}
	return nil, fmt.Errorf("unknown scheme %q; those of the packages that this program imports are %s; pawl's own stores are in %s/{%s}",
		driver.Shorten(scheme), known, path, strings.Join(slices.Compact(slices.Sorted(maps.Values(packages))), ","))
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
