// SPDX-License-Identifier: Apache-2.0

//go:build linux

package drivertest

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// FromSending checks that trust counts from before a request was sent, however long its answer takes. It pauses the
// server and calls ask, which returns the instant from which the answer is trusted. On a slow machine a request may be
// sent late: then FromSending calls ask again, with the next number and a longer pause, up to most.
func FromSending(t testing.TB, s *servers.Server, what string, most time.Duration, ask func(try int) driver.Instant) {
	t.Helper()
	for try, pause := 0, time.Second; ; try, pause = try+1, 2*pause {
		s.Stop()
		before := driver.Now()
		time.AfterFunc(pause, s.Cont)
		since := ask(try)
		if took := driver.Now().Sub(before); took < pause {
			t.Errorf("%s took %v: this shows nothing", what, took)
		}
		late := since.Sub(before)
		if late >= 0 && late <= pause/2 {
			return
		}
		if late < 0 || pause >= most {
			t.Errorf("%s is trusted from %v after it was sent", what, late)
			return
		}
	}
}
