// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// layout says where the keys of locks are. A key is head, the name, tail, a slash, and KIND/BACKING, where BACKING
// is the id of an etcd lease. The keys of etcd's concurrency package end in BACKING alone. Both packages give the
// lock to the key that was created first, whatever its name is.
type layout struct {
	head, tail string
	mixed      bool // there may be keys of the concurrency package: a Pattern is set
}

// newLayout returns the layout of a pattern, or of pawl's own keys if pattern is empty.
func newLayout(prefix, pattern string) (layout, error) {
	if pattern == "" {
		return layout{head: prefix + lockPart}, nil
	}
	head, tail, ok := strings.Cut(pattern, "*")
	switch {
	case !ok || head == "" || strings.Contains(tail, "*") || tail != "" && tail[0] != '/' || driver.CheckName(pattern) != nil:
		return layout{}, fmt.Errorf("etcdlock: pattern %q: write one with a * in the place of the name, as /locks/*", driver.Shorten(pattern))
	case strings.HasPrefix(head, prefix) || strings.HasPrefix(prefix, head):
		return layout{}, fmt.Errorf("etcdlock: the locks of the pattern %q would be among our keys, which begin with %q: use another Prefix", driver.Shorten(pattern), driver.Shorten(prefix))
	}
	return layout{head: head, tail: tail, mixed: true}, nil
}

// place begins all keys of one name.
type place string

func (l layout) place(name string) place { return place(l.head + escape(name) + l.tail + "/") }

// check returns an error if name cannot be locked. With a Pattern names are not escaped, because the concurrency
// package does not escape them.
func (l layout) check(name string) error {
	if l.mixed && escape(name) != name {
		return storekit.OfKind(errors.ErrUnsupported, fmt.Errorf("etcdlock: name %q: with a Pattern it cannot have / or %%", driver.Shorten(name)))
	}
	return nil
}

// split returns the parts of a key. The keys of the concurrency package have no kind.
func (l layout) split(key string) (name, kind, backing string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.head)
	name, rest, there := strings.Cut(rest, l.tail+"/")
	if !ok || !there || strings.Contains(name, "/") {
		return "", "", "", false
	}
	kind, backing, ours := strings.Cut(rest, "/")
	if !ours {
		kind, backing = "", rest
	}
	if !l.mixed {
		name = unescaper.Replace(name)
	}
	return name, kind, backing, backing != "" && !strings.Contains(backing, "/") && (kind != "" || l.mixed)
}
