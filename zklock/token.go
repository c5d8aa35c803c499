// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The servers number their transactions. A token is the number of the one that made the node, its czxid, with
// tokenBits more bits: room for the tokens of waiters of the same client, to which package pawl hands the lease without
// a request. The next node has a greater czxid. Tokens stay below 2^63, as databases have no larger numbers, so there
// is room for 524,288 epochs. A new one begins with each election.
const (
	tokenBits = 12
	reserved  = 1<<tokenBits - 1
	maxCzxid  = 1<<(63-tokenBits) - 1
)

var errEpochs = errors.New("the servers have counted more epochs than tokens have room for: " +
	"move the locks to a new ensemble, and then lower the tokens that the resources remember")

// tokenOf returns the token of a node that was made by a transaction, or 0 if that is too large for a token. Then
// only another library can hold the name with the node.
func tokenOf(czxid int64) uint64 {
	if checkCzxid(czxid) != nil {
		return 0
	}
	return uint64(czxid) << tokenBits
}

var errBack = fmt.Errorf("%w: the servers have gone back to an older state, as after a restore from a backup: "+
	"lower the tokens that the resources remember, and restart the clients", driver.ErrDisagree)

// checkOrder returns errBack if the node was made by an earlier transaction than the node of a lease that was
// granted before this one was asked for.
func (n *node) checkOrder() error {
	if n.czxid <= n.floor {
		return fmt.Errorf("transaction %#x, after %#x: %w", n.czxid, n.floor, errBack)
	}
	for seen := &n.s.store.seen; ; {
		if last := seen.Load(); n.czxid <= last || seen.CompareAndSwap(last, n.czxid) {
			return nil
		}
	}
}

// checkCzxid returns errEpochs for a transaction that is too large for a token.
func checkCzxid(czxid int64) error {
	if czxid < 0 || czxid > maxCzxid {
		return fmt.Errorf("epoch %d: %w", uint64(czxid)>>32, errEpochs)
	}
	return nil
}
