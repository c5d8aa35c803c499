// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
	"github.com/pawl-go/pawl/internal/participant"
)

// OpenFunc opens the store at url as one participant. It may change opts, which is a copy,
// where the URL says something else. Its errors contain no password; Open adds the op "open".
type OpenFunc func(ctx context.Context, url string, opts *Options) (driver.Store, error)

// opened has the schemes that Register was called for.
var opened = struct {
	sync.RWMutex
	by map[string]OpenFunc
}{by: make(map[string]OpenFunc)}

// Register makes Open pass URLs with the given scheme, in lower case, to open. The packages of
// stores call it when they are initialized. It panics if open is nil, or if scheme is invalid or
// registered already.
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

// Schemes returns the schemes that Register was called for, sorted.
func Schemes() []string {
	opened.RLock()
	defer opened.RUnlock()
	return slices.Sorted(maps.Keys(opened.by))
}

// Open returns a client of the store at url. The scheme of url selects the store, and the
// program must import its package; a blank import is enough. The Open function of that package
// says what its URLs contain, and has options that only its kind of store knows.
//
// Open returns the errors of the package's Open and of New. If no package has registered the scheme,
// the error names the schemes that are registered. If the store is unavailable, Open returns a client
// that connects when it is used: see Ping. Errors contain no password.
func Open(ctx context.Context, url string, opts *Options) (*Client, error) {
	open, err := find(url)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	own := copyOf(opts)
	return Connect(ctx, func(ctx context.Context) (driver.Store, error) { return open(ctx, url, own) }, own)
}

// OpenStore connects to the store at url, for callers that wrap the store before they pass it
// to New. It does not change opts.
func OpenStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	open, err := find(url)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	store, err := open(ctx, url, copyOf(opts))
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	return store, nil
}

func copyOf(opts *Options) *Options {
	if opts == nil {
		return &Options{}
	}
	own := *opts
	return &own
}

// find returns the function that opens the store at url. Its errors repeat only the scheme,
// because any other part may be a misplaced password.
func find(url string) (OpenFunc, error) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok || !isScheme(scheme) {
		return nil, errors.New("this is not the URL of a store, as it has no scheme: write SCHEME://HOST:PORT, or what the package of the store asks for")
	}
	opened.RLock()
	open := opened.by[strings.ToLower(scheme)]
	opened.RUnlock()
	if open != nil {
		return open, nil
	}
	known := "none"
	if all := Schemes(); len(all) > 0 {
		known = strings.Join(all, ", ")
	}
	return nil, fmt.Errorf(`no store is registered for the scheme %q; registered: %s. Import the package of the store, as in import _ "PACKAGE"; %s lists the packages`,
		driver.Shorten(scheme), known, "https://github.com/pawl-go/pawl#stores")
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

// New returns a client of store, and makes Close of the client close store. The error says
// which option is out of range. It wraps errors.ErrUnsupported if the store lacks a guarantee
// in opts.Require.
func New(store driver.Store, opts *Options) (*Client, error) {
	if store == nil {
		return nil, &Error{Op: "open", Err: errors.New("New has no store: give it one, or use Open with the URL of a store")}
	}
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	if err := lacks(store, c.require); err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	c.core.Use(store)
	return c, nil
}

// lacks returns an error if a store lacks a guarantee that a client requires.
func lacks(store driver.Store, require Guarantees) error {
	if missing := store.Caps().Guarantees.Missing(driver.Guarantees(require)); missing != nil {
		return fmt.Errorf("this store cannot give %s: use another store, or do not require it: %w",
			strings.Join(missing, ", "), errors.ErrUnsupported)
	}
	return nil
}

// newClient returns a client without a store.
func newClient(opts *Options) (*Client, error) {
	opts = copyOf(opts)
	ttl := cmp.Or(opts.TTL, DefaultTTL)
	if err := checkTTL(ttl); err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	holder := driver.Holder(opts.Holder).Filled()
	c := &Client{require: opts.Require, ttl: ttl, holder: &holder, observer: newReporter(opts.Observer, opts.Logger)}
	c.core = client.New(client.Config{
		Holder: c.holder, Observer: &c.observer, News: c.observer.news, NotEnded: c.observer.notGivenBack, Caller: c.caller,
		Wrap: wrap, Search: search,
	})
	return c, nil
}

// Connect returns a client of the store that open returns; the packages of stores call it. If
// the error of open is ErrUnavailable, Connect returns a client that calls open again when it
// is used. Connect returns all other errors. It also returns an ErrUnavailable that is
// fs.ErrInvalid or errors.ErrUnsupported, because waiting does not help. open must bound its
// time, and return a new store in each call.
func Connect(ctx context.Context, open func(context.Context) (driver.Store, error), opts *Options) (*Client, error) {
	ctx = present(ctx)
	store, err := open(ctx)
	switch {
	case err == nil:
		c, err := New(store, opts)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return c, nil
	case ctx.Err() != nil || !errors.Is(client.Only(err), ErrUnavailable) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, errors.ErrUnsupported):
		return nil, &Error{Op: "open", Err: err}
	}
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	c.core.Open(func(ctx context.Context) (driver.Store, error) {
		store, err := open(ctx)
		if err == nil {
			if err = lacks(store, c.require); err != nil {
				err = errors.Join(err, store.Close())
			}
		}
		return store, err
	})
	return c, nil
}

// Ping connects to the store unless the client is connected, and sends it a request. It returns
// nil if the store answers, and otherwise the error that Acquire would return. Call it when the
// program starts if the program should fail then and not wait for its store later. Ping takes at
// most five seconds, or the time to connect.
func (c *Client) Ping(ctx context.Context) error {
	ctx = present(ctx)
	if err := c.core.Usable(ctx); err != nil {
		return c.opError(ctx, "ping", "", err)
	}
	err := c.ask(ctx, func(ctx context.Context) error {
		_, err := c.core.Participant().Inspect(ctx, "ping")
		if errors.Is(err, errors.ErrUnsupported) { // of any name
			_, err = c.core.Participant().Describe(ctx)
		}
		return err
	})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return c.opError(ctx, "ping", "", err)
}

// ask makes a request that ends with Close, and after RequestTimeout.
func (c *Client) ask(ctx context.Context, request func(context.Context) error) error {
	untilClose, cancel := c.core.UntilClose(ctx)
	defer cancel()
	asking, stop := context.WithTimeout(untilClose, participant.RequestTimeout)
	defer stop()
	err := request(asking)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: it has not answered for %v", ErrUnavailable, participant.RequestTimeout)
	}
	return err
}

// Guarantees returns what the store of the client promises. It returns the zero value as long
// as the client has not reached its store.
func (c *Client) Guarantees() Guarantees {
	if !c.core.Connected() {
		return Guarantees{}
	}
	return Guarantees(c.core.Participant().Caps().Guarantees)
}
