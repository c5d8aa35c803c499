// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// misses are the nodes that have not answered, and why not.
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
	for _, n := range m {
		// What the outcome is for the whole does not depend on one of them.
		text := n.err.Error()
		for _, sentinel := range []error{driver.ErrUnavailable, driver.ErrUncertain} {
			text = strings.ReplaceAll(text, sentinel.Error()+": ", "")
		}
		all = append(all, n.addr+": "+text)
	}
	return strings.Join(all, "; ")
}

// err returns the error of a request that a quorum has not answered:
// ErrUnavailable if no node can have carried it out, else ErrUncertain.
func (m misses) err(d *Driver) error {
	kind := driver.ErrUnavailable
	for _, n := range m {
		if !errors.Is(n.err, driver.ErrUnavailable) {
			kind = driver.ErrUncertain
		}
	}
	return m.as(kind, d)
}

func (m misses) as(kind error, d *Driver) error {
	return fmt.Errorf("%w: %d of %d nodes have not answered, and %d have to: %v", kind, len(m), len(d.members), d.quorum, m)
}
