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

// Adopted is a lease that any participant may have acquired. The store sends events about it to that one.
type Adopted struct {
	store driver.Store
	ref   driver.Ref
	token driver.Token
}

// Adopt returns the lease with the given id that holds name. It returns driver.ErrLost if that lease does not hold
// name, a *driver.ClosedError while the store may have forgotten how a lease has ended, and errors.ErrUnsupported if
// the leases of the store end with their participant.
func Adopt(ctx context.Context, store driver.Store, name, id string) (*Adopted, error) {
	if caps := store.Caps(); !caps.Adopts || !caps.Expiry {
		return nil, fmt.Errorf("a lease of this store cannot be renewed by another process: %w", errors.ErrUnsupported)
	}
	info, err := store.Inspect(ctx, name)
	if err != nil {
		return nil, looked(err)
	}
	if err := open(ctx, store); err != nil { // else it may have forgotten a lease that it does not show
		return nil, err
	}
	i := slices.IndexFunc(info.Holders, func(h driver.Held) bool {
		foreign := h.Token == 0 && store.Caps().Fencing // a lock of another library, which is shown with its value
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
	if errors.Is(err, errors.ErrUnsupported) { // it forgets nothing
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

// Renew makes the TTL start anew, and returns since when it counts. It returns a *driver.LostError if the lease has
// ended. While the store is closed, the lease may be one that had ended, where another one is trusted. If it is open
// after the renewal, the time of all such others is over before anybody trusts this one.
func (a *Adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := open(ctx, a.store); err != nil { // else it says that the lease is lost, which may be trusted elsewhere
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
		return 0, worded(driver.FailureOf(err)).Err
	}
	return r.Since, nil
}

// Release ends the lease. It returns a *driver.LostError if it had ended.
func (a *Adopted) Release(ctx context.Context) error {
	found, err := a.store.End(ctx, a.ref, driver.End{})
	if err != nil {
		return worded(driver.FailureOf(err)).Err
	}
	if !found {
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}
