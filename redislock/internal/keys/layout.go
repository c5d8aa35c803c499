// SPDX-License-Identifier: Apache-2.0

// Package keys names the keys of locks.
package keys

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// Layout says which keys a lock has. One is the key of the lock itself, which clients of
// other libraries may use too. The others are the keys beside the lock, which only pawl
// uses. All are in one slot of a cluster.
type Layout struct {
	Prefix  string
	Pattern string // of the lock, with one * for the name; if empty, the key is PREFIX{NAME}

	before, after string // the parts of the key of a lock before and after its name
}

// New returns a layout. Different names have different keys, since a key is the name between
// two fixed texts.
func New(prefix, pattern string) (*Layout, error) {
	l := &Layout{Prefix: prefix, Pattern: pattern}
	if strings.ContainsAny(prefix, "{}") || driver.CheckName(prefix) != nil {
		return nil, fmt.Errorf("prefix %q: use printable characters other than braces", driver.Shorten(prefix))
	}
	if pattern == "" {
		l.before, l.after = prefix+"{", "}"
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

// version is the version of the records in the store. A client refuses records of another version.
const version = "1 "

// Version returns the beginning of the record of an epoch: the version and the pattern. So a
// client recognizes a record of clients with another pattern.
func (l *Layout) Version() string {
	if l.Pattern == "" {
		return version + "-"
	}
	return version + url.QueryEscape(l.Pattern)
}

// PatternOf returns the pattern in the record of an epoch. ok is false for a record of another
// version.
func PatternOf(record string) (pattern string, ok bool) {
	escaped, ok := strings.CutPrefix(record, version)
	escaped, _, _ = strings.Cut(escaped, " ")
	if escaped == "-" {
		return "", ok
	}
	pattern, err := url.QueryUnescape(escaped)
	return pattern, ok && err == nil
}

// Lock returns the key of the lock with a name. Without a Pattern the name is its hash tag, so that all keys of a name
// are in one slot of a cluster. If the name begins with }, the tag would be empty, and Redis ignores an empty tag. So Lock
// puts U+0001 before such a name; names cannot contain that character.
func (l *Layout) Lock(name string) string {
	if l.Pattern == "" && strings.HasPrefix(name, "}") {
		name = "\x01" + name
	}
	return l.before + name + l.after
}

var errBraces = errors.New("its key has braces that are no hash tag, so the keys beside it could be at another node of a cluster: use no braces, or one pair with something between them")

// Check returns an error if the lock with a name would have a key that is not possible.
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

// tagged reports whether a key has a hash tag: at least one character between the first { and the next }.
func tagged(key string) bool {
	_, rest, _ := strings.Cut(key, "{")
	return strings.Index(rest, "}") > 0
}

// Beside returns the beginning of the keys beside a lock. Without a Pattern it is the key of the
// lock. With one it has the same hash tag as the key of the lock, or, if that has none, the
// whole key as its hash tag; so all keys are in one slot. The brace after the prefix tells these
// two forms apart. As prefixes contain no brace, the form with } is also never the PREFIX{NAME}
// of another prefix.
func (l *Layout) Beside(lock string) string {
	switch {
	case l.Pattern == "":
		return lock
	case tagged(lock):
		return l.Prefix + "}" + lock
	}
	return l.Prefix + "{" + lock + "}"
}

// Name returns the name of the lock that has the key. ok is false if the key is of another form.
func (l *Layout) Name(lock string) (name string, ok bool) {
	if l.Pattern != "" && strings.HasPrefix(lock, l.Prefix) {
		return "", false
	}
	if name, ok = strings.CutPrefix(lock, l.before); ok {
		name, ok = strings.CutSuffix(name, l.after)
	}
	if l.Pattern == "" {
		return strings.TrimPrefix(name, "\x01"), ok
	}
	return name, ok && driver.CheckName(name) == nil && l.Check(name) == nil
}

// NameBeside returns the name of a lock, given the key beside it with a suffix. ok is false if
// the key is of another form.
func (l *Layout) NameBeside(key, suffix string) (name string, ok bool) {
	if key, ok = strings.CutSuffix(key, suffix); !ok {
		return "", false
	}
	if l.Pattern == "" {
		return l.Name(key)
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

// Patterns returns MATCH patterns of SCAN for the locks whose names begin with start, and for
// the keys beside them with a suffix. They match further keys too.
func (l *Layout) Patterns(start, suffix string) []string {
	locks := escape(strings.TrimSuffix(l.Lock(start), l.after)) + "*"
	if l.Pattern == "" {
		return []string{locks}
	}
	return []string{locks, escape(l.Prefix) + "*" + escape(suffix)}
}

// escape returns a MATCH pattern of SCAN that matches only text.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
