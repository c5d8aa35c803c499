// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The servers count transactions, and a token is the number of the one that made the
// node, its czxid, with room behind it: for reserved more tokens of the same grant, which
// package pawl gives to those whom it passes the grant on to. The servers do not hear of
// that, and the next node has a greater number anyway. In front there is room for
// 524,288 epochs, one for each time that a leader was elected; tokens stay below 2^63, as
// databases have no larger numbers.
const (
	tokenBits = 12
	reserved  = 1<<tokenBits - 1
	maxCzxid  = 1<<(63-tokenBits) - 1
)

var errEpochs = errors.New("the servers have counted more epochs than tokens have room for: " +
	"move the locks to a new ensemble, and then lower the tokens that the resources remember")

// tokenOf returns the token of the lease whose node the transaction created, or 0 if
// there is none: nobody can hold the name with that node then, but a client of another
// library.
func tokenOf(czxid int64) uint64 {
	if checkCzxid(czxid) != nil {
		return 0
	}
	return uint64(czxid) << tokenBits
}

var errBack = fmt.Errorf("%w: the servers have gone back to an older state, as after a restore from a backup: "+
	"lower the tokens that the resources remember, and restart the clients", driver.ErrDisagree)

// checkOrder returns errBack if the node was made by a transaction that is not after one that
// the servers had counted before it was asked for.
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

// checkCzxid returns errEpochs for a transaction that is no token.
func checkCzxid(czxid int64) error {
	if czxid < 0 || czxid > maxCzxid {
		return fmt.Errorf("epoch %d: %w", uint64(czxid)>>32, errEpochs)
	}
	return nil
}
