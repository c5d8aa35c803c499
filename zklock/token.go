// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The servers number their transactions, and the nodes of a name. A token combines the number of the transaction
// that made the name's node, its czxid, with the number of the lease's node: it is their sum, shifted by
// tokenBits. The bits below leave room for the tokens of waiters of the same client, to which package pawl hands
// the lease without a request. A list of the nodes contains both numbers.
//
// Each node of a lease takes a transaction. So if the servers remove the name's node and a client makes it again,
// its new czxid is greater than the number in every earlier token. Tokens stay below 2^63, because databases have
// no larger numbers. This leaves room for 524,288 epochs. A new epoch begins with each election.
const (
	tokenBits = 12
	reserved  = 1<<tokenBits - 1
	maxCzxid  = 1<<(63-tokenBits) - 1
)

var errEpochs = errors.New("the servers have counted more epochs than tokens have room for: " +
	"move the locks to a new ensemble, and then lower the tokens that the resources remember")

// tokenOf returns the token of the lease's node number seq. czxid is the transaction that made the name's node.
// tokenOf returns 0 if the number is too large for a token. Then only clients of other libraries can hold the
// name.
func tokenOf(czxid, seq int64) uint64 {
	n := czxid + 1 + seq
	if n < 0 || n > maxCzxid {
		return 0
	}
	return uint64(n) << tokenBits
}

var errBack = fmt.Errorf("%w: the servers have gone back to an older state, as after a restore from a backup: "+
	"lower the tokens that the resources remember, and restart the clients", driver.ErrDisagree)

// checkOrder returns errBack if the servers have lost transactions. zxid is the last transaction of a list that
// contains the node. It must be later than all that the client had seen before it asked for the lease.
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
