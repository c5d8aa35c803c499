// SPDX-License-Identifier: Apache-2.0

//go:build linux

package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// RenewalGoesOn checks that a renewal goes on when its caller has given up, and that a later call gets the answer. A
// renewal takes longer than limit, so no call gets the answer to its own request.
func RenewalGoesOn(t testing.TB, limit time.Duration, renew func(context.Context) (driver.Instant, error)) {
	t.Helper()
	var last, since driver.Instant
	var err error
	first := driver.Now()
	told := servers.Eventually(servers.Patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		last = driver.Now()
		since, err = renew(ctx)
		return err == nil
	})
	switch {
	case !told:
		t.Errorf("no call of Renew gets the answer to an earlier one: %v", err)
	case since < first || since >= last:
		t.Errorf("trust counts from %v after the first call of Renew began, and %v after the last; want from a sending in between",
			since.Sub(first), since.Sub(last))
	}
}
