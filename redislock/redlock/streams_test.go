// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func longReader() *driver.Request {
	req := long()
	req.Shared = true
	return req
}

// TestExpiredReadersFreeTheKey: the key of readers is gone when the last of them has
// ended, also if one that would have lasted longer was released; so other libraries
// need not wait for it.
func TestExpiredReadersFreeTheKey(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	d := openDriver(t, f.url(), opts)
	brief := longReader()
	brief.TTL = time.Second
	get(t, d, brief)
	g := get(t, d, longReader())
	release(t, g)
	f.clear(t)
}
