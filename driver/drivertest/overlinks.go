// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// OverLinks returns a service for package wiretest in which each participant has a link of its own to the
// server at addr, or one to each server if addr has several with commas between them. Open opens a
// participant at the address of its link, or at those of its links.
func OverLinks(addr string, open func(t testing.TB, addr string) driver.Store) wiretest.Service {
	var links sync.Map // by participant
	each := func(s driver.Store, f func(*Link)) {
		all, _ := links.Load(s)
		for _, l := range all.([]*Link) {
			f(l)
		}
	}
	set := func(f Fault) func(testing.TB, driver.Store) {
		return func(_ testing.TB, s driver.Store) { each(s, func(l *Link) { l.Set(f) }) }
	}
	return wiretest.Service{
		Open: func(t testing.TB) driver.Store {
			var own []*Link
			var addrs []string
			for _, a := range strings.Split(addr, ",") {
				l := NewLink(t, a)
				own, addrs = append(own, l), append(addrs, l.Addr())
			}
			s := open(t, strings.Join(addrs, ","))
			links.Store(s, own)
			return s
		},
		Crash: func(_ testing.TB, s driver.Store) { each(s, (*Link).Close) },
		Cut:   set(BlackHole),
		Heal:  set(Healthy),
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
