// SPDX-License-Identifier: Apache-2.0

package redislock

// Mode is the purpose of a lock. Clients of both modes exclude each other. But if one
// client locks a name with Efficiency, the name is only as safe as Efficiency for all
// clients.
type Mode string

const (
	// Correctness is for locks that two clients must never hold at the same time.
	Correctness Mode = ""

	// Efficiency is for locks that only avoid doing the same work twice. A lease is a
	// SET NX PX and a compare-and-delete, so many leases take half the time.
	//
	// Efficiency gives up the following:
	//
	//   - After a restart, a failover, an eviction or FLUSHALL two clients can hold the
	//     same lock, until the first one renews.
	//   - Leases have no fencing token, and all are exclusive.
	//   - Waiters poll, in no order, and overtake waiters with Correctness.
	//   - The client does not notice steps of the server's clock.
	//   - A request that the client has given up may reach the server after its release,
	//     if the release used another connection. It then holds the name until the TTL
	//     ends.
	//
	// Efficiency implies AllowUnguarded. Open returns an error with WaitReplicas, and Bless
	// always does. A TTL longer than MaxTTL is an error too, to protect clients with
	// Correctness.
	Efficiency Mode = "efficiency"
)
