// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// TestSilentServer: a server goes away in different ways. The client tells it after a second, although nobody asks.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]func(*redis, *drivertest.Link){
		"killed":  func(r *redis, _ *drivertest.Link) { r.kill() },
		"cut off": func(_ *redis, l *drivertest.Link) { l.Set(drivertest.BlackHole) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			link := drivertest.NewLink(t, r.Addr)
			s, events := wired(t, "redis://"+link.Addr(), longOptions())
			open := func() bool { now, _ := s.server.Session("deploy"); return now != conn.Session{} }
			await(t, "the subscription does not open", open)
			away(r, link)
			if news := next(t, events, driver.Told).News; news.Silent < time.Second || news.Server == "" {
				t.Errorf("told %+v; want that the server has been silent for a second", news)
			}
		})
	}
}
