// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestAdoptInQuarantine: a server that may have forgotten how a lease has ended lets nobody
// take it over or renew it by its id.
func TestAdoptInQuarantine(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	opts := &Options{Schema: "adopted", Mode: Async, MaxTTL: testMaxTTL}
	d := open(t, p.URL("pawl"), opts)
	req := request("deploy", testMaxTTL)
	if _, err := d.TryAcquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	before, err := d.Adopt(t.Context(), req.Name, req.Lease)
	if err != nil {
		t.Fatal(err)
	}
	sql(t, p, "CHECKPOINT") // it is on disk, and is there after the crash
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	var closed *driver.ClosedError
	var since driver.Instant
	if !eventually(patience, func() bool { // the first request may find the old connection
		since, err = before.Renew(t.Context(), time.Minute)
		return err == nil || errors.As(err, &closed)
	}) || err == nil {
		t.Errorf("Renew in quarantine = %v, %v; want a ClosedError", since, err)
	}
	d = open(t, p.URL("pawl"), opts)
	for _, lease := range []string{req.Lease, "forgotten"} {
		if g, err := d.Adopt(t.Context(), req.Name, lease); g != nil || !errors.As(err, &closed) {
			t.Errorf("Adopt in quarantine = %v, %v; want a ClosedError", g, err)
		}
	}
	if err := Bless(t.Context(), p.URL("pawl"), opts); err != nil {
		t.Fatal(err)
	}
	g, err := d.Adopt(t.Context(), req.Name, req.Lease)
	if err != nil {
		t.Fatalf("Adopt after Bless = %v", err)
	}
	renewed(t, g)
}
