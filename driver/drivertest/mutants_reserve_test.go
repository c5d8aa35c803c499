// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"math"

	"github.com/pawl-go/pawl/driver"
)

var reserveMutants = []*mutant{
	{
		name:    "reserved tokens are given to others",
		reserve: 7,
		breaks: []string{"reserved-tokens-go-to-no-other-grant", "reserved-tokens-go-to-no-waiter",
			"reserved-tokens-go-to-no-reader-and-no-slot", "downgrade-grants-another-lease",
			"reserved-tokens-stay-so-after-break",
			"reserved-tokens-stay-so-after-expiry", "reserved-tokens-stay-so-after-a-crash",
			"inspect-shows-the-first-of-reserved-tokens"},
		token: func(g *mutantGrant) uint64 { return g.fullGrant.Token() },
	},
	{
		name:    "the last reserved token is given to another",
		reserve: 7,
		breaks: []string{"reserved-tokens-go-to-no-other-grant", "reserved-tokens-go-to-no-waiter",
			"repeated-attempt-keeps-the-reserved-tokens", "reserved-tokens-stay-so-after-expiry"},
		aside: func(g *mutantGrant) uint64 { return 8 },
	},
	{
		name:    "more tokens are reserved than there are",
		reserve: 7,
		breaks:  []string{"reserved-tokens-go-to-no-other-grant"},
		aside:   func(*mutantGrant) uint64 { return math.MaxUint64 },
	},
	{
		name:    "fewer are reserved with every look",
		reserve: 70,
		breaks:  []string{"reserved-tokens-do-not-change"},
		aside:   func(g *mutantGrant) uint64 { return uint64(70 + g.d.count(g.req.Lease, -1)) },
	},
	{
		name:    "fewer are reserved after release",
		reserve: 7,
		breaks:  []string{"reserved-tokens-do-not-change"},
		aside: func(g *mutantGrant) uint64 {
			if _, err := g.fullGrant.Renew(g.d.ctx, g.req.TTL); err != nil {
				return 0
			}
			return 7
		},
	},
	{
		name:    "a repeated attempt reserves less",
		reserve: 7,
		breaks:  []string{"repeated-attempt-keeps-the-reserved-tokens"},
		aside:   func(g *mutantGrant) uint64 { return 7 - min(6, g.nth-1) },
	},
	{
		name:    "a repeated attempt has the next of the reserved tokens",
		reserve: 7,
		breaks:  []string{"repeated-attempt-keeps-the-reserved-tokens"},
		token:   func(g *mutantGrant) uint64 { return g.fullGrant.Token()*8 + min(6, g.nth-1) },
	},
	{
		name:    "the last of the reserved tokens is shown",
		reserve: 7,
		breaks:  []string{"inspect-shows-the-first-of-reserved-tokens"},
		inspect: changeInfo(func(info *driver.Info) { info.Holders[0].Token += 7 }),
	},
	{
		name:    "the token after the reserved ones is shown as granted",
		reserve: 7,
		breaks:  []string{"inspect-shows-the-first-of-reserved-tokens"},
		inspect: changeInfo(func(info *driver.Info) { info.Token += 8 }),
	},
}
