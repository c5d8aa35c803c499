// SPDX-License-Identifier: Apache-2.0

//go:build linux

/*
Command chaos runs many clients of pawl, as processes of their own, on a real store
with real servers, breaks all that can break, and checks from what the clients have
written down whether a lock was ever held by two.

	go run ./lab/chaos --store cluster --for 2m --seed 7

It shares nothing with what it tests. Package worker uses the public API and writes down
what it is told; package check knows what a lock is; package stage starts servers and does
to them what breaks locks; package link is the way between. None of them imports a test of
pawl, and none knows how a lease is given.

All instants are of one clock, that of the machine since its boot, so nothing has to be
allowed for: two leases of one name that were believed at the same instant are a violation. A
lease is believed from the first to the last instant that was read before Err said nil.

Faults that break an assumption that docs/guarantees names are drawn only with --beyond. With
--mutant the clients are built with one protection taken out, and the run has to find it.
*/
package main
