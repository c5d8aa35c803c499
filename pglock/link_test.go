// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// linked is a participant with a link that can be cut.
type linked struct {
	*client
	link *drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewStore(context.Background(), "postgres://pawl@"+link.Addr()+"/postgres?sslmode=disable", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &linked{clientOf(d), link}
}

// left returns what the store keeps of names that begin with prefix, but for the row
// with the last token and, for a while, tombstones.
func left(t testing.TB, p *servers.Postgres, opts *Options, prefix string) []string {
	out := sql(t, p, strings.ReplaceAll(`SELECT 'lock ' || name FROM pawl.lock WHERE starts_with(name, '`+prefix+`') AND (lease IS NOT NULL OR sharers > 0 OR waiters > 0)
		UNION ALL SELECT 'sharer ' || name FROM pawl.sharer WHERE starts_with(name, '`+prefix+`')
		UNION ALL SELECT 'waiter ' || name FROM pawl.waiter WHERE starts_with(name, '`+prefix+`')`, "pawl.", quote(cmp.Or(opts.Schema, defaultSchema))+"."))
	return strings.Fields(out)
}
