// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestClockSteps: a step of the server's clock is told once, and by its size; what drift
// and slow answers explain is none.
func TestClockSteps(t *testing.T) {
	const server, second = int64(1_700_000_000_000_000), int64(1_000_000)
	at := func(d time.Duration) driver.Instant { return driver.Instant(1).Add(d) }
	for _, c := range []struct {
		what   string
		micros int64 // by the server, ten seconds after the first answer
		slow   time.Duration
		want   time.Duration
	}{
		{"a clock that runs as it should", 10 * second, 0, 0},
		{"one that is a bit quick", 10*second + 50_000, 0, 0},
		{"a slow answer", 10*second + 400_000, time.Second, 0},
		{"forward", 70 * second, 0, time.Minute},
		{"back", -50 * second, 0, -time.Minute},
	} {
		var k clock
		k.saw(at(0), at(0), server)
		step, news := k.saw(at(10*time.Second), at(10*time.Second+c.slow), server+c.micros)
		if off := step - c.want; off < -time.Second || off > time.Second || (step == 0) != (c.want == 0) || news != (c.want != 0) {
			t.Errorf("%s: a step of %v, told: %v; want %v", c.what, step, news, c.want)
		}
		if step, _ := k.saw(at(20*time.Second), at(20*time.Second), server+20*second+c.want.Microseconds()); step != 0 {
			t.Errorf("%s: told again: %v", c.what, step)
		}
	}
}

// TestClockForward: leases that the server must have ended because its clock was set
// forward are lost at once; others are not.
func TestClockForward(t *testing.T) {
	d := open(t, server(t).URL("pawl"), wide)
	short, long := take(t, d, "clock/short", 2*time.Second).(*grant), take(t, d, "clock/long", time.Hour).(*grant)
	var news []driver.News
	d.OnNews(func(n driver.News) { news = append(news, n) })
	sent := driver.Now()
	d.saw(sent, time.Now().Add(time.Minute).UnixMicro())
	if err := short.over(); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the short lease: %v; want ErrLost", err)
	}
	if err := long.over(); err != nil {
		t.Errorf("the long lease: %v", err)
	}
	if len(news) != 1 || news[0].Step < 50*time.Second {
		t.Errorf("news: %+v; want one of the step", news)
	}
}
