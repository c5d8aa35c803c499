// SPDX-License-Identifier: Apache-2.0

package pawl

import "sync"

// maxOrder bounds the pairs of names that a client remembers.
const maxOrder = 1024

// order remembers which names a client's callers have taken while they held which others.
type order struct {
	class func(name string) string

	mu    sync.Mutex
	taken map[[2]string]struct{} // the one that was held, the one that was taken
}

// reversed notes that then is taken while first is held. It reports, once, that the other
// order is known too, and returns the classes. It forgets nothing, and notes no more than
// maxOrder pairs.
func (o *order) reversed(first, then string) (a, b string, both bool) {
	if o.class != nil {
		first, then = o.class(first), o.class(then)
	}
	if first == then {
		return "", "", false
	}
	pair, other := [2]string{first, then}, [2]string{then, first}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.taken[pair]; known {
		return "", "", false
	}
	if o.taken == nil {
		o.taken = make(map[[2]string]struct{})
	}
	if len(o.taken) >= maxOrder {
		return "", "", false
	}
	_, both = o.taken[other]
	o.taken[pair] = struct{}{}
	return first, then, both
}

// noteOrder notes that name is taken by a caller that has leases, and warns of the other order.
func (c *Client) noteOrder(leases []*Lease, name string) {
	if c.order == nil {
		return
	}
	for _, l := range leases {
		if l.grant.client != c {
			continue // another store may have the same name
		}
		if first, then, both := c.order.reversed(l.grant.name, name); both {
			c.observer.bothOrders(first, then)
		}
	}
}
