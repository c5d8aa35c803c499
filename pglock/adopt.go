// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Adopter = (*store)(nil)

// Adopt implements driver.Adopter. The grant is not among those of the store: the messages
// about it go to the participant that has got it. The functions find a lease of any kind if
// they are told that it is exclusive.
func (s *store) Adopt(ctx context.Context, name, lease string) (driver.Grant, error) {
	info, err := s.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(info.Holders, func(h driver.Held) bool { return h.Lease == lease })
	if i >= 0 {
		return adopted{&grant{s: s, name: name, lease: lease, token: uint64(info.Holders[i].Token), since: 1}}, nil
	}
	rows, _, f := s.exec(ctx, s.sql.news, lease)
	if f != nil {
		return nil, readError(ctx, f)
	}
	if len(rows) == 1 && len(rows[0][0]) > 0 {
		return nil, readNews(string(rows[0][0]))
	}
	return nil, &driver.LostError{Reason: driver.Gone}
}

// adopted hides what a grant can do for a participant that has got it itself.
type adopted struct{ driver.Grant }
