// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

var _ driver.Adopter = (*store)(nil)

// Adopt implements driver.Adopter. The grant is not among those of the store: the messages
// about it go to the participant that has got it.
func (s *store) Adopt(ctx context.Context, name, lease string) (driver.Grant, error) {
	info, err := s.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	// While the server is closed it may have forgotten a lease that it does not have.
	if err := s.shut(ctx); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(info.Holders, func(h driver.Held) bool { return h.Lease == lease && h.Transaction == nil })
	if i >= 0 {
		h := info.Holders[i]
		kind := kindOf(&driver.Request{Shared: h.Shared, Slots: h.Slots})
		return adopted{&grant{s: s, name: name, lease: lease, kind: kind, token: uint64(h.Token), since: 1}, s}, nil
	}
	rows, _, f := s.exec(ctx, s.sql.news, lease)
	if f != nil {
		return nil, readError(ctx, f)
	}
	var broken string
	if len(rows) == 1 {
		broken = string(rows[0][0])
	}
	return nil, storekit.HowLost(broken)
}

// adopted hides what a grant can do for a participant that has got it itself.
type adopted struct {
	driver.Grant
	s *store
}

// Renew implements driver.Grant. While the server is closed, the lease may be one that had
// ended, where another one is trusted. If it is open after the renewal, the time of all such
// others is over before anybody trusts this one.
func (a adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	since, err := a.Grant.Renew(ctx, ttl)
	if err != nil {
		return 0, err
	}
	if err := a.s.shut(ctx); err != nil {
		return 0, err
	}
	return since, nil
}

// shut returns a *ClosedError while the server is closed.
func (s *store) shut(ctx context.Context) error {
	row, _, f := s.bound(ctx, s.sql.shut)
	if f != nil {
		return f.err
	}
	if left := long(row[1]); left > 0 {
		return s.closedFor(time.Duration(left) * time.Microsecond)
	}
	return nil
}
