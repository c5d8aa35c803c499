// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestInstants: no instant that somebody has written into a store keeps a lock from being
// described.
func TestInstants(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.UnixMicro(math.MaxInt64), time.UnixMicro(math.MinInt64), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		info := &pawl.Info{Holders: []pawl.Held{{Acquired: at, Renewed: at, Expires: at}}, Waiters: []pawl.Waiter{{Since: at}}}
		if _, err := json.Marshal(LockOf(info)); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
}

// Programs that read JSON may go through the lists without a look at whether they are null.
func TestFreeLock(t *testing.T) {
	got, err := json.Marshal(LockOf(&pawl.Info{Name: "a"}))
	if want := `{"name":"a","held":false,"token":0,"holders":[],"waiters":[]}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
