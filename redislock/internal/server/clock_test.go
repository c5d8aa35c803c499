// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestStep(t *testing.T) {
	const s = driver.Instant(time.Second)
	last := Term{Sent: 10 * s, Heard: 11 * s, TTL: 30 * time.Second}
	next := Term{Sent: 20 * s, Heard: 22 * s, TTL: 30 * time.Second}
	for _, c := range []struct{ left, want time.Duration }{
		{20 * time.Second, 0},
		{18 * time.Second, 0}, // the first was executed at once, the second at last
		{21 * time.Second, 0}, // the other way round
		{17700 * time.Millisecond, 0},
		{17 * time.Second, time.Second},
		{2 * time.Second, 16 * time.Second},
		{22 * time.Second, -time.Second},
		{time.Hour, 21*time.Second - time.Hour},
	} {
		if got := last.step(next, c.left); got != c.want {
			t.Errorf("with %v left the clock was set by %v; want %v", c.left, got, c.want)
		}
	}
}
