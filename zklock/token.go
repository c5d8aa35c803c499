// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The servers number their transactions, and the nodes of a name. The upper 32 bits of a transaction's number are
// its epoch: each election begins a new one. A token is the sum of two numbers, shifted by tokenBits: the number of
// the transaction that made the name's node, its czxid, and the number of the lease's node. A list of the nodes
// contains both. If the lease's node is of a later epoch than the name's node, its own czxid takes the place of the
// sum. So tokens grow after a restore from a backup, too, which brings an old node of a name back: the election
// begins an epoch above all transactions that were lost.
//
// The bits below leave room for the tokens of waiters of the same client, to which package pawl hands the lease
// without a request.
//
// Each node of a lease takes a transaction, so the sum is not greater than the node's own czxid. If the servers
// remove the name's node and a client makes it again, its new czxid is greater than the number in every earlier
// token. Tokens stay below 2^63, because databases have no larger numbers. This leaves room for 524,288 epochs.
const (
	tokenBits = 12
	reserved  = 1<<tokenBits - 1
	maxCzxid  = 1<<(63-tokenBits) - 1
)

var errEpochs = errors.New("the servers have counted more epochs than tokens have room for: " +
	"move the locks to a new ensemble, and then lower the tokens that the resources remember")

// tokenOf returns the token of the lease's node number seq. The transaction parent made the name's node, and the
// transaction own made the lease's node. tokenOf returns 0 if the number is too large for a token. Then only clients
// of other libraries can hold the name.
func tokenOf(parent, seq, own int64) uint64 {
	n := own
	if epoch(own) == epoch(parent) {
		n = parent + 1 + seq
	}
	if n < 0 || n > maxCzxid {
		return 0
	}
	return uint64(n) << tokenBits
}

func epoch(zxid int64) int64 { return zxid >> 32 }

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
