// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync"
	"testing"

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
