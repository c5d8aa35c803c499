// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// random is the source of a client's random pauses. Its seed comes from the client's
// holder and the time at which the client was made, so that every run in a bubble of
// fake time is the same.
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
