// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

// party is a participant, with the wire under it for tests that look at that.
type party struct {
	*participant.Participant
	wire
	news *storekit.Outbox[driver.News]
}

// wire makes the methods of the participant win.
type wire struct{ *store }

func asParty(d driver.Store) *party {
	s, ok := d.(*store)
	if !ok {
		s = d.(efficient).store
	}
	news := new(storekit.Outbox[driver.News])
	return &party{participant.New(d, participant.Options{News: news.Put}), wire{s}, news}
}

func (p *party) OnNews(f func(driver.News)) { p.news.To(f) }

func (p *party) Adopt(ctx context.Context, name, lease string) (*participant.Adopted, error) {
	return participant.Adopt(ctx, p.Participant.Store(), name, lease)
}

// tries is a participant.
type tries interface {
	TryAcquire(context.Context, *driver.Request) (*participant.Lease, error)
}

func take(t testing.TB, p tries, req *driver.Request) *participant.Lease {
	t.Helper()
	g, err := p.TryAcquire(context.Background(), req)
	if err != nil {
		t.Fatalf("TryAcquire = %v; want a grant", err)
	}
	return g
}
