// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestNodeAwayAtFirst: a node that does not answer when a client begins is named in the log, once,
// although the client goes on.
func TestNodeAwayAtFirst(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, patient())
	for _, away := range []int{0, 1} {
		if away > 0 {
			f[2].Kill()
		}
		var log servers.Output
		opts := patient()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d := openDriver(t, f.url(), opts)
		for range 3 {
			g := get(t, d, lasting(name, time.Minute))
			release(t, g)
		}
		text := log.String()
		if strings.Count(text, "\n") != away || away > 0 && (!strings.Contains(text, "1 of 3 nodes have not answered, and 2 have to: "+f[2].Addr) || strings.Contains(text, f[0].Addr)) {
			t.Errorf("with %d nodes away the log says:\n%s", away, text)
		}
	}
}
