// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

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
