// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestDeadWriter: the first in the queue, a writer, has gone. The readers behind it need not
// wait until those who hold the lock have gone, too.
func TestDeadWriter(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	other := take(t, a, reading(long("deploy")))
	link := drivertest.NewLink(t, r.Addr)
	wait(t, r, openThrough(t, link, longOptions()).party, long("deploy"))
	w := wait(t, r, b, reading(long("deploy")))
	refusedBy(t, a, reading(long("deploy")), 1)
	link.Close()
	release(t, w.granted(patience))
	release(t, take(t, a, reading(long("deploy"))))
	release(t, other)
}
