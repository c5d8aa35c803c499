// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestStepped: a server whose clock is set forward has ended the terms that had less left than
// that, and no others.
func TestStepped(t *testing.T) {
	const s = time.Second
	known := term{sent: driver.Instant(100 * s), heard: driver.Instant(101 * s), ttl: 30 * s}
	for _, c := range []struct {
		what string
		term term
		step time.Duration
		now  time.Duration
		want bool
	}{
		{"by more than is left", known, 20 * s, 112 * s, true},
		{"by less than is left for certain", known, 20 * s, 111 * s, false},
		{"by what may be left", known, 20*s - 1, 111 * s, false},
		{"before the term", known, 3600 * s, 101 * s, false}, // the answer to the same request
		{"back", known, -20 * s, 140 * s, false},
		{"not at all", known, 0, 140 * s, false},
		{"and the term is unknown", term{}, 3600 * s, 112 * s, false},
	} {
		if got := c.term.endedBy(c.step, driver.Instant(c.now)); got != c.want {
			t.Errorf("set forward %s: endedBy = %v; want %v", c.what, got, c.want)
		}
	}
}

// TestClaimBegan: how a waiter reads the server's time in a message.
func TestClaimBegan(t *testing.T) {
	const s = time.Second
	asked := driver.Instant(1000 * s)
	last := look{sent: asked, at: 5000 * s}
	for _, c := range []struct {
		what          string
		passed, heard time.Duration // since the look: at the server, until the message; and here
		trusted       bool
	}{
		{"at once", 2 * s, 2*s + time.Millisecond, true},
		{"held up", 2 * s, 5 * s, true}, // it is late, not wrong
		{"clock set forward", 10 * s, 2 * s, false},
		{"clock set back", s, 2 * s, true}, // it began earlier than it did
		{"from before the look", -s, 2 * s, false},
	} {
		claim := claim{at: last.at + c.passed, heard: asked.Add(c.heard)}
		began, ok := claim.began(last)
		if ok != c.trusted {
			t.Errorf("%s: trusted %v; want %v", c.what, ok, c.trusted)
		}
		if want := asked.Add(c.passed - driver.Drift(c.passed)); ok && began != want {
			t.Errorf("%s: it began %v after the look; want %v", c.what, began.Sub(asked), want.Sub(asked))
		}
	}
}

// TestClaimTerm: a claim counts from before the server began it, for no longer than the TTL, and
// is worth nothing when less than half of it is left.
func TestClaimTerm(t *testing.T) {
	const s = time.Second
	asked := driver.Instant(1000 * s)
	last := look{sent: asked, at: 5000 * s}
	claim := claim{at: last.at + s, lasts: 10 * s, heard: asked.Add(3 * s)} // it arrived two seconds late
	for _, c := range []struct {
		what     string
		last     look
		ttl, now time.Duration // now since the look
		length   time.Duration // of the term; 0 if there is none
	}{
		{"in time", last, 30 * s, 3 * s, 10 * s},
		{"of a lease that is shorter", last, 5 * s, 3 * s, 5 * s},
		{"half over, but for the drift", last, 30 * s, 6*s - 200*time.Millisecond, 10 * s},
		{"half over", last, 30 * s, 6 * s, 0},
		{"that was over when the look was sent", look{sent: asked, at: claim.at + 1}, 30 * s, 3 * s, 0},
		{"of after its arrival", look{sent: asked, at: claim.at - 4*s}, 30 * s, 3 * s, 0},
	} {
		term, ok := claim.term(c.last, c.ttl, asked.Add(c.now))
		if ok != (c.length != 0) {
			t.Errorf("a claim %s: trusted %v; want %v", c.what, ok, c.length != 0)
		}
		if !ok {
			continue
		}
		if began := asked.Add(s); term.sent > began || term.sent < began.Add(-s/10) || term.heard != claim.heard || term.ttl != c.length {
			t.Errorf("a claim %s: %+v; want %v from %v, heard at %v", c.what, term, c.length, began, claim.heard)
		}
		// Trust in a lease with that Since ends when the claim does, or before: by a clock that may run slower.
		ends := term.counts(c.ttl).Add(c.ttl - driver.Drift(c.ttl))
		if most := asked.Add(s + c.length - driver.Drift(c.length)); ends > most || ends < most.Add(-c.length/10) {
			t.Errorf("a claim %s: trust ends %v after the claim", c.what, ends.Sub(most))
		}
	}
}
