// SPDX-License-Identifier: Apache-2.0

package drivertest

import "time"

// Fault is what a network does to a Link.
type Fault int

const (
	Healthy Fault = iota
	// BlackHole: what is sent is lost, both ways, and new connections get no answer.
	BlackHole
	// RepliesLost: half-open. What the client sends arrives, what the server sends
	// is lost.
	RepliesLost
	// Delayed: what is sent takes 200 ms longer each way.
	Delayed
	// Resets: connections are reset, old and new.
	Resets
	// Forgotten: the present connections lose everything and do not end, as behind a
	// firewall that has forgotten them. New ones work.
	Forgotten
)

func (f Fault) String() string {
	return [...]string{"healthy", "black hole", "replies lost", "delay", "reset", "forgotten"}[f]
}

const linkDelay = 200 * time.Millisecond

// direction is that of what a link passes on.
type direction int

const (
	up   direction = iota // to the server
	down                  // to the client
)

// loses reports whether the fault loses what is sent in a direction.
func (f Fault) loses(d direction) bool {
	return f == BlackHole || f == RepliesLost && d == down
}
