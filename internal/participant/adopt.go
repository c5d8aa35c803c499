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

// Adopted is a lease that another participant may have acquired. Events about it go to that participant.
type Adopted struct {
	store driver.Store
	ref   driver.Ref
	token driver.Token
}

// Adopt returns the lease with the given id on name. It returns driver.ErrLost if that lease does not have name, a
// *driver.ClosedError while the store may have forgotten leases, and errors.ErrUnsupported if leases of the store end
// with their participant.
func Adopt(ctx context.Context, store driver.Store, name, id string) (*Adopted, error) {
	if caps := store.Caps(); !caps.Adopts || !caps.Expiry {
		return nil, fmt.Errorf("a lease of this store cannot be renewed by another process: %w", errors.ErrUnsupported)
	}
	info, err := store.Inspect(ctx, name)
	if err != nil {
		return nil, looked(err)
	}
	if err := open(ctx, store); err != nil { // a closed store may not show a lease that is held
		return nil, err
	}
	i := slices.IndexFunc(info.Holders, func(h driver.Held) bool {
		foreign := h.Token == 0 && store.Caps().Fencing // a lock of another library: Lease is its value
		return h.Lease == id && h.Transaction == nil && !foreign
	})
	if i < 0 {
		if _, err := store.Renew(ctx, driver.Ref{Name: name, Lease: id}, leastTTL); err != nil && lossOf(err) != nil {
			return nil, lossOf(err)
		}
		return nil, &driver.LostError{Reason: driver.Gone}
	}
	h := info.Holders[i]
	return &Adopted{store, driver.Ref{Name: name, Lease: id, Shared: h.Shared, Slots: h.Slots}, h.Token}, nil
}

// open returns a *driver.ClosedError while the store grants nothing.
func open(ctx context.Context, store driver.Store) error {
	info, err := store.Describe(ctx)
	if errors.Is(err, errors.ErrUnsupported) { // a store that never closes
		return nil
	}
	if err != nil {
		return looked(err)
	}
	if info.Closed > 0 {
		return &driver.ClosedError{Left: info.Closed, MaxTTL: info.MaxTTL, SetBy: info.SetBy, Do: info.Do}
	}
	return nil
}

// Token returns the fencing token.
func (a *Adopted) Token() driver.Token { return a.token }

// Renew begins the TTL anew, and returns the instant from which it counts. It returns a *driver.LostError if the lease
// has ended.
//
// A closed store may have older data, in which a lease is held that has ended, while another client trusts a later
// one. So Renew checks that the store is open, before and after the renewal: if it is open afterwards, the time of
// every such later lease was over.
func (a *Adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := open(ctx, a.store); err != nil { // a closed store may call a lease lost that is trusted elsewhere
		return 0, err
	}
	r, err := a.store.Renew(ctx, a.ref, ttl)
	if err == nil {
		err = open(ctx, a.store)
	}
	if err != nil {
		if lost := lossOf(err); lost != nil {
			return 0, lost
		}
		return 0, Worded(driver.FailureOf(err))
	}
	return r.Since, nil
}

// Release ends the lease. It returns a *driver.LostError if it had ended.
func (a *Adopted) Release(ctx context.Context) error {
	found, err := a.store.End(ctx, a.ref, driver.End{})
	if err != nil {
		return Worded(driver.FailureOf(err))
	}
	if !found {
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}
