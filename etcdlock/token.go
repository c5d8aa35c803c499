// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// A token is the create revision of the key, shifted by tokenBits. The client gives the tokens in between to its
// own waiters, without a request. Tokens stay below 2^63, because databases have no larger numbers. This is enough
// for a million changes of the cluster a second for seventy years.
const (
	tokenBits   = 12
	reserved    = 1<<tokenBits - 1
	maxRevision = 1<<(63-tokenBits) - 1
)

// tokenOf returns the token of a lease whose key has the create revision rev.
func tokenOf(rev int64) uint64 { return uint64(rev) << tokenBits }

// saw records the revision of the cluster in an answer.
func (s *store) saw(rev int64) {
	for {
		last := s.rev.Load()
		if rev <= last || s.rev.CompareAndSwap(last, rev) {
			return
		}
	}
}

// checkRevision checks the create revision rev of a key. It returns an error if rev is too large for a token, or
// is not above seen, the greatest revision that the client knew before it put the key.
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
