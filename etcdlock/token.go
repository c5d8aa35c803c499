// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// The cluster counts its changes, and a token is the number of the one that made the
// key, its create revision, with room behind it: for reserved more tokens of the same
// grant, which package pawl gives to those whom it passes the grant on to. The cluster
// does not hear of that, and the next key has a greater revision anyway. Tokens stay
// below 2^63, as databases have no larger numbers: after 2^51 changes, which is seventy
// years of a million a second, there are no more.
const (
	tokenBits   = 12
	reserved    = 1<<tokenBits - 1
	maxRevision = 1<<(63-tokenBits) - 1
)

// tokenOf returns the token of the lease whose key has the create revision, or 0 if that is
// too large: nobody holds the name with such a key.
func tokenOf(rev int64) uint64 {
	if checkRevision(rev) != nil {
		return 0
	}
	return uint64(rev) << tokenBits
}

// saw notes the revision of the cluster that an answer has named.
func (s *store) saw(rev int64) {
	for {
		last := s.rev.Load()
		if rev <= last || s.rev.CompareAndSwap(last, rev) {
			return
		}
	}
}

// checkOrder returns an error for a key that was put after the cluster had counted seen
// changes, and whose revision is not above that.
func checkOrder(rev, seen int64) error {
	if rev > seen {
		return nil
	}
	return storekit.OfKind(driver.ErrDisagree, fmt.Errorf("etcdlock: revision %d: the cluster had counted %d before, and has gone back to an older state, as after a restore from a backup: "+
		"restore it with etcdutl snapshot restore --bump-revision, or lower the tokens that the resources remember and restart the clients", rev, seen))
}

// checkRevision returns an error for a revision that is no token.
func checkRevision(rev int64) error {
	if rev < 0 || rev > maxRevision {
		return storekit.OfKind(driver.ErrDisagree, fmt.Errorf("etcdlock: revision %d: the cluster has counted more changes than tokens have room for: "+
			"move the locks to a new cluster, and then lower the tokens that the resources remember", rev))
	}
	return nil
}
