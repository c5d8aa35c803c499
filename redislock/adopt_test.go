// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestAdoptInQuarantine: a server comes back with data from before a lease was broken, where
// the next one is trusted. The lease that it shows is not renewed before that one is over.
func TestAdoptInQuarantine(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	bless(t, r.url(), longOptions())
	a, b, known := open(t, r.url(), longOptions()), open(t, r.url(), longOptions()), open(t, r.url(), longOptions())
	alone, shares := long("deploy"), long("readers")
	shares.Shared = true
	broken := []*driver.Request{alone, shares}
	var before []*participant.Adopted
	for _, req := range broken {
		take(t, a, req)
		g, err := known.Adopt(t.Context(), req.Name, req.Lease)
		must(t, err)
		before = append(before, g)
	}
	file, log := appended(t, r)
	for _, req := range broken {
		must(t, b.Break(t.Context(), req.Name, req.Lease, nil, "test"))
		take(t, b, long(req.Name))
	}
	r.restartWith(file, log)
	c := open(t, r.url(), longOptions())
	for i, req := range broken {
		var closed *driver.ClosedError
		if g, err := c.Adopt(t.Context(), req.Name, req.Lease); g != nil || !errors.As(err, &closed) || closed.Left <= 0 {
			t.Errorf("Adopt in quarantine = %v, %v; want a ClosedError", g, err)
		}
		var since driver.Instant
		var err error
		if !eventually(patience, func() bool { // the first request may find the old connection
			since, err = before[i].Renew(t.Context(), req.TTL)
			return err == nil || errors.As(err, &closed)
		}) || err == nil {
			t.Errorf("Renew in quarantine of a lease that was broken = %v, %v; want a ClosedError", since, err)
		}
	}
	bless(t, r.url(), longOptions())
	for _, req := range broken {
		g, err := c.Adopt(t.Context(), req.Name, req.Lease)
		must(t, err)
		succeeds(t, "Renew after Bless", errorOf(g.Renew(t.Context(), req.TTL)))
		release(t, g)
	}
}

// TestAdoptForgotten: a server that has restarted without its data has forgotten a lease, which may
// be trusted until the server grants anything. It does not count as lost before.
func TestAdoptForgotten(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	known := open(t, r.url(), longOptions())
	req := long("deploy")
	take(t, open(t, r.url(), longOptions()), req)
	g, err := known.Adopt(t.Context(), req.Name, req.Lease)
	must(t, err)
	r.kill()
	r.restart()
	var closed *driver.ClosedError
	if g, err := open(t, r.url(), longOptions()).Adopt(t.Context(), req.Name, req.Lease); g != nil || !errors.As(err, &closed) {
		t.Errorf("Adopt of a lease that was forgotten = %v, %v; want a ClosedError", g, err)
	}
	if !eventually(patience, func() bool { // the first request may find the old connection
		_, err = g.Renew(t.Context(), req.TTL)
		return errors.Is(err, driver.ErrLost) || errors.As(err, &closed)
	}) || errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew of a lease that was forgotten = %v; want a ClosedError", err)
	}
}
