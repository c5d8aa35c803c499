// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestAdoptInQuarantine: a server that may have forgotten how a lease has ended lets nobody
// take it over or renew it by its id.
func TestAdoptInQuarantine(t *testing.T) {
	t.Parallel()
	p := server(t)
	opts := &Options{Schema: "adopted", MaxTTL: testMaxTTL}
	d := open(t, p.URL("pawl"), opts)
	req := request("deploy", testMaxTTL)
	if _, err := d.TryAcquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	before, err := d.Adopt(t.Context(), req.Name, req.Lease)
	if err != nil {
		t.Fatal(err)
	}
	sql(t, p, "UPDATE adopted.epoch SET closed = adopted.us() + 100000000")
	var closed *driver.ClosedError
	if since, err := before.Renew(t.Context(), time.Minute); !errors.As(err, &closed) {
		t.Errorf("Renew in quarantine = %v, %v; want a ClosedError", since, err)
	}
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
