// SPDX-License-Identifier: Apache-2.0

package redislock

// Mode is what a lock is for. Clients of both modes exclude each other. But if one of
// them locks a name with Efficiency, the name is no safer than that for all of them.
type Mode string

const (
	// Correctness: two holders at a time must not happen.
	Correctness Mode = ""

	// Efficiency: two holders at a time only do the same work twice. A lease is SET NX
	// PX and a compare-and-delete, and many of them take half the time.
	//
	// It gives up the following. After a restart, a failover, an eviction or FLUSHALL
	// two clients can hold the same lock, until the first one renews. Leases have no
	// fencing token, and are exclusive. Waiters ask again and again, in no order, and
	// overtake those with Correctness. Steps of the server's clock are not noticed. If
	// a request was given up, and reaches the server after its release, which came on
	// another connection, it holds the name until the TTL ends.
	//
	// AllowUnguarded is implied; WaitReplicas and Bless are refused. A TTL longer than
	// MaxTTL is refused here too, to protect clients with Correctness.
	Efficiency Mode = "efficiency"
)
