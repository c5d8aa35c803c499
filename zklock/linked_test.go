// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// linked is a client with a link that can be cut.
type linked struct {
	*client
	link *drivertest.Link
}

const suiteTTL = 5 * time.Second

func options(ttl time.Duration) *Options {
	o := &Options{TickTime: tick}
	o.TTL = ttl
	return o
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewStore(context.Background(), "zk://"+link.Addr(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &linked{clientOn(d), link}
}

// left lists the nodes below those of names that begin with prefix.
func left(t testing.TB, s *server, prefix string) (nodes []string) {
	t.Helper()
	d := openThrough(t, drivertest.NewLink(t, s.Addr), options(time.Minute))
	defer d.Close()
	n, err := d.wire.inspectSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.conn.Sync(d.wire.root)
	names, _, err := n.conn.Children(d.wire.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range names {
		if name, ok := decodeName(node); ok && strings.HasPrefix(name, prefix) {
			nodes = append(nodes, childrenOf(t, d.client, name)...)
		}
	}
	return nodes
}
