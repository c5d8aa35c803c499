// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// party is a participant, with the wire under it for tests that look at that.
type party struct {
	*participant.Participant
	wire
}

// wire makes the methods of the participant win.
type wire struct{ *store }

func asParty(d driver.Driver) *party {
	p := d.(*participant.Participant)
	s, ok := p.Store().(*store)
	if !ok {
		s = p.Store().(efficient).store
	}
	return &party{p, wire{s}}
}

// asked are the requests of grants, as a grant does not show its id.
var asked sync.Map

func take(t testing.TB, d driver.Driver, req *driver.Request) driver.Grant {
	t.Helper()
	g, err := d.TryAcquire(context.Background(), req)
	if err != nil {
		t.Fatalf("TryAcquire = %v; want a grant", err)
	}
	asked.Store(g, req)
	t.Cleanup(func() { asked.Delete(g) })
	return g
}

// leaseOf returns the id of a lease that take has got.
func leaseOf(g driver.Grant) string {
	req, _ := asked.Load(g)
	return req.(*driver.Request).Lease
}
