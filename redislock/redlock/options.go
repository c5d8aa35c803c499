// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock"
)

// Options are the settings of a client on N masters. The zero value is useful,
// and a nil *Options is the same.
type Options struct {
	// Options apply to each server.
	redislock.Options

	// NodeTimeout is how long a node may answer nothing before calls go on without it. The
	// default is a second, or four measured round trips if that is longer, but at most a
	// third of the TTL.
	NodeTimeout time.Duration

	// Quorum is how many nodes have to agree: N/2+1 unless set. A larger quorum
	// tolerates nodes that forget, but fewer nodes that are down; see the table in
	// docs/guarantees/redlock.md.
	Quorum int

	// AllowSingle accepts a single node, for tests and until the other two are set up.
	AllowSingle bool

	// Rand is the source of random delays; the ordinary source unless set. One
	// goroutine at a time uses it.
	Rand rand.Source

	// WallClock is the clock that tokens follow; time.Now unless set.
	WallClock func() time.Time
}

// noted logs a text about MaxTTL; see epoch.Limit.
func (o *Options) noted(text string) {
	if o.Logger != nil {
		o.Logger.Warn("redlock: " + text)
	}
}

func newClient(d *store, opts *Options) (*pawl.Client, error) {
	c, err := pawl.New(d, &storekit.OrDefault(opts).Options.Options)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}
