// SPDX-License-Identifier: Apache-2.0

package redlock

// reuse: the check asks with the id of a request that was refused. A Driver bars the ids of refused requests at the nodes.
// Package participant asks with another id.
const reuse = "a refused id is not used again"

// unmoved are the checks that Wire does not pass, as a Driver has its own client half, and why.
var unmoved = map[string]string{
	"token-grows-with-each-grant":                        reuse,
	"a-lease-ends-when-its-ttl-is-over":                  reuse,
	"a-lease-is-not-over-while-it-is-trusted":            reuse,
	"a-renewal-prolongs":                                 reuse,
	"a-renewal-for-a-microsecond-only-asks":              reuse,
	"a-renewal-never-revives":                            reuse,
	"a-late-renewal-spares-the-successor":                reuse,
	"a-hand-over-begins-a-ttl":                           reuse,
	"a-crash-frees-the-names-of-that-participant":        reuse,
	"a-holder-that-is-cut-off-keeps-nobody-out-for-long": reuse,
	"a-waiter-that-was-ended-leaves-the-queue":           "it asks for the order of waiters, which is not promised",
	"nothing-is-left":                                    reuse,
	"a-crashed-waiter-is-passed-over":                    "what a waiter that has crashed was handed stays with it for a second",
	"inspect-shows-holders-and-the-queue":                "Inspect shows no readers that wait, and not since when",
	"a-reader-that-expires-spares-the-others":            "a Driver says that a lease is over as soon as it does not trust it, a hundredth of its TTL before the nodes end it",
}
