// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/redislock"
)

// Options are the settings of a client on N masters. The zero value is useful,
// and a nil *Options is the same.
type Options struct {
	// Options are those of every single server.
	redislock.Options

	// NodeTimeout is how long a node may take to answer one request before the
	// attempt goes on without it: a two hundredth of the TTL, but 5 ms at least,
	// unless set. It has to be small compared with the TTL.
	NodeTimeout time.Duration

	// Quorum is how many nodes have to agree: N/2+1 unless set. More than that
	// tolerates forgetful nodes, and fewer that are down; see the table in
	// docs/guarantees.md.
	Quorum int

	// AllowSingle accepts one node, for tests and for the day on which the other
	// two are being built.
	AllowSingle bool

	// Rand is where random delays come from; the ordinary source unless set. It is
	// used by one goroutine at a time.
	Rand rand.Source

	// WallClock is the clock that tokens follow; time.Now unless set.
	WallClock func() time.Time
}
