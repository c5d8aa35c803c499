// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The servers number their transactions, and the nodes of a name. A token is the number of the transaction that made
// the name's node, its czxid, plus that of the lease's node. It has tokenBits more bits: room for the tokens of waiters of the
// same client, to which package pawl hands the lease without a request. The list of the nodes tells both numbers.
//
// Each node of a lease takes a transaction of its own. So if the servers have removed the name's node and it is made again, its
// czxid is greater than all tokens before. Tokens stay below 2^63, as databases have no larger numbers, so there
// is room for 524,288 epochs. A new one begins with each election.
const (
	tokenBits = 12
	reserved  = 1<<tokenBits - 1
	maxCzxid  = 1<<(63-tokenBits) - 1
)

var errEpochs = errors.New("the servers have counted more epochs than tokens have room for: " +
	"move the locks to a new ensemble, and then lower the tokens that the resources remember")

// tokenOf returns the token of a node, given the transaction that made the node of the name, or 0 if that is too large for
// a token. Then only another library can hold the name.
func tokenOf(czxid, seq int64) uint64 {
	n := czxid + 1 + seq
	if n < 0 || n > maxCzxid {
		return 0
	}
	return uint64(n) << tokenBits
}

var errBack = fmt.Errorf("%w: the servers have gone back to an older state, as after a restore from a backup: "+
	"lower the tokens that the resources remember, and restart the clients", driver.ErrDisagree)

// checkOrder returns errBack if the last transaction of a list that has the node is not later than what a list had
// before the lease was asked for.
func (n *node) checkOrder(zxid int64) error {
	if zxid <= n.floor {
		return fmt.Errorf("transaction %#x, after %#x: %w", zxid, n.floor, errBack)
	}
	for seen := &n.s.store.seen; ; {
		if last := seen.Load(); zxid <= last || seen.CompareAndSwap(last, zxid) {
			return nil
		}
	}
}
