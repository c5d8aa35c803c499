// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestRefuse: each error says what to type, and is driver.ErrDisagree.
func TestRefuse(t *testing.T) {
	by := Signature(driver.Holder{Who: "ann", Host: "a", PID: 7})
	for want, err := range map[string]error{
		"TTL 2h is longer than the store's MaxTTL, which is 1h0m0s, set by ann (pid 7): use a shorter one, as leases are renewed, or raise MaxTTL with pawl max-ttl 2h":                          MaxTTL{time.Hour, by}.Refuse(2 * time.Hour),
		"TTL 2h is longer than the store's MaxTTL, which is 1h0m0s: use a shorter one, as leases are renewed, or raise MaxTTL with pawl max-ttl 2h":                                              MaxTTL{TTL: time.Hour}.Refuse(2 * time.Hour),
		"TTL 1m30s is longer than MaxTTL, which is 30s unless set: use a shorter one, as leases are renewed, or set MaxTTL with pawl max-ttl 1m30s and ?max_ttl=1m30s in the URL of each client": RefuseHere(90*time.Second, 30*time.Second, false),
		"TTL 1m30s is longer than MaxTTL, which is 30s: use a shorter one, as leases are renewed, or set MaxTTL with pawl max-ttl 1m30s and ?max_ttl=1m30s in the URL of each client":            RefuseHere(90*time.Second, 30*time.Second, true),
		"a here, but b there": Disagreef("%s here, but %s there", "a", "b"),
	} {
		if err.Error() != want || !errors.Is(err, driver.ErrDisagree) {
			t.Errorf("%q; want %q, which is ErrDisagree", err, want)
		}
	}
}

func TestTyped(t *testing.T) {
	for _, want := range []string{"24h", "1h30m", "10m", "1m30s", "20h0m10s", "10s", "0s", "100ms", "-1h"} {
		d, err := time.ParseDuration(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := typed(d); got != want {
			t.Errorf("Typed(%v) = %s", d, got)
		}
	}
}
