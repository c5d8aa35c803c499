// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/pawl-go/pawl/internal/scale"
)

// estimateJSON is what more of the same would take. Rates are those that were measured, so
// the store carries at least as much.
type estimateJSON struct {
	Pairs     float64 `json:"acquire_release_per_second"` // of clients with one request at a time each
	HandOffs  float64 `json:"hand_off_per_second"`
	Processor float64 `json:"client_processor"` // how busy those of this machine were, of 1
	Wish      wish    `json:"wish"`
	Servers   float64 `json:"servers"`
	First     string  `json:"gives_out_first"`
}

// wish is what the estimate is for.
type wish struct {
	Clients  float64 `json:"clients"`
	Leases   float64 `json:"leases"`
	HandOffs float64 `json:"hand_offs_per_second"`
}

const wishTTL = 30 // seconds

// estimate computes what the wish takes, from the time for which each of the clients and
// hand-offs kept the store, and sizes that were measured elsewhere.
func (out *benchJSON) estimate(scheme string, w wish) *estimateJSON {
	if out.Clients.PerSecond <= 0 || out.Crossings.PerSecond <= 0 {
		return nil
	}
	s := scale.Stores[scheme].Measured(1/out.Clients.PerSecond, 1/out.Crossings.PerSecond)
	needs := s.Needs(scale.Wish{Clients: w.Clients, Held: w.Leases, TTL: wishTTL, HandOffs: w.HandOffs}, scale.Usual)
	return &estimateJSON{
		Pairs: out.Clients.PerSecond, HandOffs: out.Crossings.PerSecond, Processor: max(out.Clients.Processor, out.Crossings.Processor),
		Wish: w, Servers: scale.Servers(needs), First: needs[0].Resource,
	}
}

func (e *estimateJSON) text(w io.Writer) error {
	if e == nil {
		return nil
	}
	least := ""
	if e.Processor > 0.8 {
		least = "at least " // this machine was the limit, or may have been
	}
	_, err := fmt.Fprintf(w, "For many clients together this store carries %s%.0f locks and %.0f hand-offs a second.\n"+
		"Stores that %s clients with %s leases of %d s and %s hand-offs a second take: %.0f.\n"+
		"What gives out first: %s. See docs/scale.md.\n",
		least, e.Pairs, e.HandOffs, roundNumber(e.Wish.Clients), roundNumber(e.Wish.Leases), wishTTL, roundNumber(e.Wish.HandOffs), e.Servers, e.First)
	return err
}

// roundNumber writes a number in few digits.
func roundNumber(n float64) string { return strconv.FormatFloat(n, 'g', 5, 64) }
