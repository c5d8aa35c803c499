// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Adopt implements driver.Adopter. The store sends events about an adopted lease to the participant that
// acquired it, so this one does not list it.
func (p *Participant) Adopt(ctx context.Context, name, id string) (driver.Grant, error) {
	if !p.caps.Adopts {
		return nil, fmt.Errorf("a lease of this store cannot be renewed by another process: %w", errors.ErrUnsupported)
	}
	info, err := p.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := p.open(ctx); err != nil { // else it may have forgotten a lease that it does not show
		return nil, err
	}
	i := slices.IndexFunc(info.Holders, func(h driver.Held) bool {
		foreign := h.Token == 0 && p.caps.Fencing // a lock of another library, which is shown with its value
		return h.Lease == id && h.Transaction == nil && !foreign
	})
	if i < 0 {
		if _, err := p.store.Renew(ctx, driver.Ref{Name: name, Lease: id}, leastTTL); err != nil && lossOf(err) != nil {
			return nil, lossOf(err)
		}
		return nil, &driver.LostError{Reason: driver.Gone}
	}
	h := info.Holders[i]
	ref := driver.Ref{Name: name, Lease: id, Shared: h.Shared, Slots: h.Slots}
	return adopted{&lease{p: p, ref: ref, state: held, token: uint64(h.Token), since: 1}, p}, nil
}

// open returns a *driver.ClosedError while the store grants nothing.
func (p *Participant) open(ctx context.Context) error {
	info, err := p.Describe(ctx)
	if err != nil {
		return err
	}
	if info.Closed > 0 {
		return &driver.ClosedError{Left: info.Closed, MaxTTL: info.MaxTTL, SetBy: info.SetBy}
	}
	return nil
}

// adopted hides what a lease can do for the participant that has got it itself.
type adopted struct {
	driver.Grant
	p *Participant
}

// Renew implements driver.Grant. While the store is closed, the lease may be one that had ended, where
// another one is trusted. If it is open after the renewal, the time of all such others is over before
// anybody trusts this one.
func (a adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := a.p.open(ctx); err != nil { // else it says that the lease is lost, which may be trusted elsewhere
		return 0, err
	}
	since, err := a.Grant.Renew(ctx, ttl)
	if err != nil {
		return 0, err
	}
	if err := a.p.open(ctx); err != nil {
		return 0, err
	}
	return since, nil
}
