// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// OverLinks returns a service for package wiretest in which each participant has a link of its own to the
// server at addr. Open opens a participant at the address of its link.
func OverLinks(addr string, open func(t testing.TB, addr string) driver.Store) wiretest.Service {
	var links sync.Map // by participant
	link := func(s driver.Store) *Link {
		l, _ := links.Load(s)
		return l.(*Link)
	}
	return wiretest.Service{
		Open: func(t testing.TB) driver.Store {
			l := NewLink(t, addr)
			s := open(t, l.Addr())
			links.Store(s, l)
			return s
		},
		Crash: func(_ testing.TB, s driver.Store) { link(s).Close() },
		Cut:   func(_ testing.TB, s driver.Store) { link(s).Set(BlackHole) },
		Heal:  func(_ testing.TB, s driver.Store) { link(s).Set(Healthy) },
	}
}

// ClientsOf returns clients for package wiretest. Open opens one at an address that leads to the server at addr.
func ClientsOf(t testing.TB, addr string, open func(addr string) (*pawl.Client, error)) wiretest.Clients {
	l := NewLink(t, addr)
	return wiretest.Clients{
		Open: func(t testing.TB) *pawl.Client {
			c, err := open(l.Addr())
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Away: func(testing.TB) func() {
			l.Set(BlackHole)
			return func() { l.Set(Healthy) }
		},
	}
}
