// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"github.com/pawl-go/pawl/driver"
)

var recallMutants = []*mutant{
	{
		name: "nobody tells a keeper",
		breaks: []string{"kept-lease-hears-of-a-waiter", "kept-lease-hears-of-who-was-refused", "kept-lease-that-was-waited-for-hears-of-others",
			"name-that-nobody-uses-goes-to-whoever-asks"},
		wanted: func(*mutantGrant, driver.Recallable, func(driver.Recall)) {},
	},
	{
		name:   "a keeper is told once",
		breaks: []string{"kept-lease-hears-of-who-was-refused"},
		wanted: func(g *mutantGrant, r driver.Recallable, f func(driver.Recall)) {
			r.OnWanted(func(how driver.Recall) {
				if g.d.count("told "+g.req.Lease, 1) == 1 {
					f(how)
				}
			})
		},
	},
	{
		name:   "a keeper is always told that somebody waits",
		breaks: []string{"kept-lease-hears-of-who-was-refused"},
		wanted: func(_ *mutantGrant, r driver.Recallable, f func(driver.Recall)) {
			r.OnWanted(func(driver.Recall) { f(driver.Waits) })
		},
	},
	{
		name:    "nothing is kept",
		breaks:  []string{"kept-lease-hears-of-a-waiter", "kept-lease-has-reserved-tokens"},
		request: func(req *driver.Request) { req.Keeps = false },
	},
	{
		name:    "everything is kept",
		breaks:  []string{"lease-that-is-not-kept-is-not-asked-for"},
		request: func(req *driver.Request) { req.Keeps = true },
	},
	{
		name:   "a keeper has one token",
		breaks: []string{"kept-lease-has-reserved-tokens"},
		aside:  func(*mutantGrant) uint64 { return 0 },
	},
}
