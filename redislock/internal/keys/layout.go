// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// Layout says which keys a lock has: the key of the lock itself, which clients of other
// libraries may use too, and the keys beside it, which only pawl uses. All are in one
// slot of a cluster.
type Layout struct {
	Prefix  string
	Pattern string // with one * for the name; empty: PREFIX{NAME}

	before, after string // of the name in Pattern
}

// New returns a layout. Two names never have the same key, as a name stands between two
// texts that are the same for all.
func New(prefix, pattern string) (*Layout, error) {
	l := &Layout{Prefix: prefix, Pattern: pattern}
	if strings.ContainsAny(prefix, "{}") || driver.CheckName(prefix) != nil {
		return nil, fmt.Errorf("prefix %q: use printable characters other than braces", driver.Shorten(prefix))
	}
	if pattern == "" {
		return l, nil
	}
	if driver.CheckName(pattern) != nil || strings.Count(pattern, "*") != 1 {
		return nil, fmt.Errorf("pattern %q: write a key with one * in the place of the name, such as lock:*", driver.Shorten(pattern))
	}
	l.before, l.after, _ = strings.Cut(pattern, "*")
	if strings.HasPrefix(l.before, prefix) {
		return nil, fmt.Errorf("pattern %q begins with the prefix %q, which is for the keys beside the locks: choose another Prefix", driver.Shorten(pattern), driver.Shorten(prefix))
	}
	return l, nil
}

// version is the version of the records in the store. A client refuses a store with another one.
const version = "1 "

// Version is what the record of an epoch begins with: the version, and the pattern, so that no
// client takes a record of clients with other keys for its own.
func (l *Layout) Version() string {
	if l.Pattern == "" {
		return version + "-"
	}
	return version + url.QueryEscape(l.Pattern)
}

// PatternOf returns the pattern of the clients that have made a record. ok is false for a record of
// another version.
func PatternOf(record string) (pattern string, ok bool) {
	escaped, ok := strings.CutPrefix(record, version)
	escaped, _, _ = strings.Cut(escaped, " ")
	if escaped == "-" {
		return "", ok
	}
	pattern, err := url.QueryUnescape(escaped)
	return pattern, ok && err == nil
}

// Lock returns the key of a name's lock.
func (l *Layout) Lock(name string) string {
	if l.Pattern == "" {
		return Key(l.Prefix, name)
	}
	return l.before + name + l.after
}

var errBraces = errors.New("its key has braces that are no hash tag, so the keys beside it could be at another node of a cluster: use no braces, or one pair with something between them")

// Check returns an error if a name cannot have a lock.
func (l *Layout) Check(name string) error {
	if l.Pattern == "" {
		return nil
	}
	lock := l.Lock(name)
	if strings.HasPrefix(lock, l.Prefix) {
		return fmt.Errorf("the key %q begins with the prefix %q, which is for the keys beside the locks: choose another Prefix", driver.Shorten(lock), l.Prefix)
	}
	if strings.ContainsAny(lock, "{}") && !tagged(lock) {
		return fmt.Errorf("name %q: %w", driver.Shorten(name), errBraces)
	}
	return nil
}

// tagged reports whether a key has a hash tag: something between the first { and the next }.
func tagged(key string) bool {
	_, rest, _ := strings.Cut(key, "{")
	return strings.Index(rest, "}") > 0
}

// Beside returns what the keys beside a lock begin with. It is in the lock's slot: with the
// same hash tag, or with the whole key as the tag. The brace keeps the two apart, and the
// former from PREFIX{NAME} of any other prefix.
func (l *Layout) Beside(lock string) string {
	switch {
	case l.Pattern == "":
		return lock
	case tagged(lock):
		return l.Prefix + "}" + lock
	}
	return l.Prefix + "{" + lock + "}"
}

// Name returns the name whose lock the key is of.
func (l *Layout) Name(lock string) (name string, ok bool) {
	if l.Pattern == "" {
		return Name(l.Prefix, lock)
	}
	if strings.HasPrefix(lock, l.Prefix) {
		return "", false
	}
	if name, ok = strings.CutPrefix(lock, l.before); ok {
		name, ok = strings.CutSuffix(name, l.after)
	}
	return name, ok && driver.CheckName(name) == nil && l.Check(name) == nil
}

// NameBeside returns the name that a key with this suffix is beside the lock of.
func (l *Layout) NameBeside(key, suffix string) (name string, ok bool) {
	if key, ok = strings.CutSuffix(key, suffix); !ok {
		return "", false
	}
	if l.Pattern == "" {
		return Name(l.Prefix, key)
	}
	if key, ok = strings.CutPrefix(key, l.Prefix); !ok {
		return "", false
	}
	if lock, ok := strings.CutPrefix(key, "}"); ok {
		name, ok = l.Name(lock)
		return name, ok && tagged(lock)
	}
	if key, ok = strings.CutPrefix(key, "{"); ok {
		key, ok = strings.CutSuffix(key, "}")
	}
	if !ok || tagged(key) {
		return "", false
	}
	return l.Name(key)
}

// Patterns returns the MATCHes of SCAN for the locks of names that begin with start, and for
// their keys with a suffix.
func (l *Layout) Patterns(start, suffix string) []string {
	if l.Pattern == "" {
		return []string{Pattern(l.Prefix, start)}
	}
	return []string{escape(l.before+start) + "*", escape(l.Prefix) + "*" + escape(suffix)}
}
