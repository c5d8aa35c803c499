// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// random is the source of a client's random pauses. Its seed comes from the client's
// holder and the time at which the client was made, so that every run in a bubble of
// fake time is the same.
type random struct {
	seed   uint64
	mu     sync.Mutex
	source *rand.Rand
}

func newRandom(h *driver.Holder) *random {
	who := fnv.New64()
	fmt.Fprint(who, *h)
	seed := who.Sum64()
	return &random{seed: seed, source: rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano())))}
}

// another returns a source of its own for the participant.
func (r *random) another() rand.Source { return rand.NewPCG(^r.seed, uint64(time.Now().UnixNano())) }

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
