// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// misses are the nodes that have not answered a request, with their errors.
type misses []miss

type miss struct {
	addr string
	err  error
}

func (m *misses) add(n *member, err error) { *m = append(*m, miss{n.Addr(), err}) }

// String lists the nodes on one line.
func (m misses) String() string {
	if len(m) == 0 {
		return "the others have refused"
	}
	var all []string
	for i, n := range m {
		all = append(all, n.addr+": "+m.text(i))
	}
	return strings.Join(all, "; ")
}

// text returns why a node has not answered. It leaves out whether this node may have carried out the request: the outcome
// of the whole request does not depend on one node.
func (m misses) text(i int) string {
	if m[i].silent() {
		return errSilent.Error()
	}
	text := m[i].err.Error()
	for _, sentinel := range []error{driver.ErrUnavailable, driver.ErrUncertain} {
		text = strings.ReplaceAll(text, sentinel.Error()+": ", "")
	}
	return text
}

// err returns the error of a request that too few nodes have answered: ErrUnavailable if
// none of the nodes in m can have carried it out, else ErrUncertain. limit is for as.
func (m misses) err(d *store, limit time.Duration) error {
	kind := driver.ErrUnavailable
	for _, n := range m {
		if !errors.Is(n.err, driver.ErrUnavailable) {
			kind = driver.ErrUncertain
		}
	}
	return m.as(kind, d, limit)
}

func (n miss) silent() bool {
	return errors.Is(n.err, errSilent) || errors.Is(n.err, context.DeadlineExceeded)
}

// errSilentNodes says that too few nodes have answered in time.
var errSilentNodes = errors.New("the store does not answer")

// as returns the error of a request that too few nodes have answered, of this kind. If
// limit is not 0, it is the node timeout that has passed.
func (m misses) as(kind error, d *store, limit time.Duration) error {
	if limit > 0 && slices.ContainsFunc(m, miss.silent) {
		return fmt.Errorf("%w: %w: %d of %d nodes have not answered, and %d have to: %v; a node has %v to answer: if round trips take longer, set NodeTimeout (?node_timeout=)",
			kind, errSilentNodes, len(m), len(d.members), d.quorum, m, limit)
	}
	return m.tooFew(kind, len(d.members), d.quorum)
}

// tooFew returns the error of a request to n nodes, if fewer than quorum have answered.
func (m misses) tooFew(kind error, n, quorum int) error {
	return storekit.OfKind(m.kind(), fmt.Errorf("%w: %d of %d nodes have not answered, and %d have to: %v", kind, len(m), n, quorum, m))
}

// kind returns the kind that all errors of m have, for storekit.OfKind, or nil.
func (m misses) kind() error {
	for _, kind := range []error{storekit.ErrDenied, storekit.ErrConfig} {
		if len(m) > 0 && !slices.ContainsFunc(m, func(n miss) bool { return !errors.Is(n.err, kind) }) {
			return kind
		}
	}
	return nil
}

// disagreement returns the error of a node that disagrees with this client about a
// setting, or nil.
func (m misses) disagreement() error {
	for _, n := range m {
		var no *storekit.Disagreement
		if errors.As(n.err, &no) {
			return fmt.Errorf("redlock: %s: %w", n.addr, no)
		}
	}
	return nil
}
