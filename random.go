// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// random is where a client's random pauses come from. Its seed is who the client is
// and when it was made, so that in a bubble of fake time every run is the same.
type random struct {
	mu     sync.Mutex
	source *rand.Rand
}

func newRandom(h *Holder) *random {
	who := fnv.New64()
	fmt.Fprint(who, *h)
	return &random{source: rand.New(rand.NewPCG(who.Sum64(), uint64(time.Now().UnixNano())))}
}

// chance returns a random number in [0, 1).
func (r *random) chance() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Float64()
}

// spread returns a random duration in [0, d).
func (r *random) spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * r.chance())
}
