// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
)

func TestTyped(t *testing.T) {
	for _, want := range []string{"24h", "1h30m", "10m", "1m30s", "20h0m10s", "10s", "0s", "100ms", "-1h"} {
		d, err := time.ParseDuration(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := storekit.Typed(d); got != want {
			t.Errorf("Typed(%v) = %s", d, got)
		}
	}
}
