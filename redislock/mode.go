// SPDX-License-Identifier: Apache-2.0

package redislock

// Mode is what a lock is for. Clients of both modes exclude each other, but a name
// that some of them lock with Efficiency is not safer than that for any of them.
type Mode string

const (
	// Correctness: two holders at a time would do harm.
	Correctness Mode = ""

	// Efficiency: two holders at a time cost no more than work done twice. A lease
	// is SET NX PX and a compare-and-delete, nothing else, and many of them take half
	// the time. What is lost: after a restart, a failover, an eviction or
	// FLUSHALL two can hold the same lock, until the first one renews; leases have no
	// fencing token, and are exclusive; who waits asks again and again, in no order, and overtakes who
	// waits with Correctness; steps of the server's clock are not noticed; a request
	// that comes when it has been given up, and its undoing was carried out before it on
	// another connection, holds the name until the TTL ends. AllowUnguarded is implied;
	// WaitReplicas and Bless are refused. A TTL longer than MaxTTL is refused here, too,
	// for the sake of those with Correctness.
	Efficiency Mode = "efficiency"
)
