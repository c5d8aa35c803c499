// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// A token is the create revision of the key, shifted by tokenBits. The tokens between it and the next revision's are
// reserved: the client gives them to its own waiters, without a request. Tokens stay below 2^63, as databases have no
// larger numbers: that is enough for a million changes of the cluster a second for seventy years.
const (
	tokenBits   = 12
	reserved    = 1<<tokenBits - 1
	maxRevision = 1<<(63-tokenBits) - 1
)

// tokenOf returns the token of the lease whose key has the create revision.
func tokenOf(rev int64) uint64 { return uint64(rev) << tokenBits }

// saw notes the revision of the cluster that an answer has named.
func (s *store) saw(rev int64) {
	for {
		last := s.rev.Load()
		if rev <= last || s.rev.CompareAndSwap(last, rev) {
			return
		}
	}
}

// checkRevision returns an error for a key whose create revision is no token, or is not above seen, the changes that the
// cluster had counted before it was put.
func checkRevision(rev, seen int64) error {
	text := ""
	switch {
	case rev > maxRevision:
		text = "the cluster has counted more changes than tokens have room for: move the locks to a new cluster, and lower the tokens that the resources remember"
	case rev <= seen:
		text = fmt.Sprintf("this client has seen revision %d, so the cluster has gone back to an older state, as after a restore from a backup: "+
			"restore it with etcdutl snapshot restore --bump-revision, or lower the tokens that the resources remember and restart the clients", seen)
	default:
		return nil
	}
	return storekit.OfKind(driver.ErrDisagree, fmt.Errorf("etcdlock: revision %d: %s", rev, text))
}
