// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestChangeNodesAfterShorterMaxTTL: leases from before MaxTTL was lowered go on with the old nodes: a
// change of nodes waits for their end, too.
func TestChangeNodesAfterShorterMaxTTL(t *testing.T) {
	t.Parallel()
	const long, short = 6 * time.Second, time.Second
	all := make(fleet, 4)
	for i := range all {
		all[i] = startServer(t)
	}
	from, to := all[:3], fleet{all[0], all[1], all[3]}
	from.bless(t, withMaxTTL(long))
	old, err := openDriver(t, from.url(), withMaxTTL(long)).TryAcquire(t.Context(), lasting("job", long))
	if err != nil {
		t.Fatal(err)
	}
	all[0].do("del", "pawl:{job}") // as if this node had not answered
	if err := SetMaxTTL(t.Context(), from.url(), short, withMaxTTL(0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := ChangeNodes(t.Context(), from.url(), to.url(), withMaxTTL(short)); err != nil {
			t.Fatal(err)
		}
	}
	if early := old.Since().Add(long - driver.Drift(long)).Sub(driver.Now()); early > 0 {
		t.Errorf("the new nodes are accepted %v before the deadline of a lease at the old", early)
	}
}
