// SPDX-License-Identifier: Apache-2.0

package redlock

import "context"

// The calls of a participant that are under way at a time are bounded. Thousands of
// goroutines that ask at once would otherwise queue up behind each other, in this process
// and at the nodes, until no answer comes within the node timeout, though all nodes are
// well. So a call waits at a gate before its first request. Its clock and its timeout begin
// behind the gate, and if its context ends before, it has sent nothing and leaves nothing.
//
// Whoever gives a lease back does not wait for those who want one: each
// have a gate. There is none for those whose time runs: for renewals, which package pawl
// bounds, and for a waiter that nodes have voted for, which does not propose more often
// than others release.

// room is how many calls a gate lets in. Fewer do not keep the processors of a client and
// of nodes nearby busy, and more only make each of them take longer.
const room = 128

// gate holds one element for each call that it has let in.
type gate chan struct{}

// enter waits until the gate lets the call in: in the order in which they came. Its error
// says that nothing was sent.
func (d *Driver) enter(ctx context.Context, g gate) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.ctx.Done():
		return unavailable(errClosed)
	}
}

func (g gate) leave() { <-g }
