// SPDX-License-Identifier: Apache-2.0

package storekit

import "github.com/pawl-go/pawl/driver"

// Sharing says with which other leases a lease may hold its name; see driver.Request. An exclusive lease has the zero
// Sharing.
type Sharing struct {
	Shared bool
	Slots  int
}

// SharingOf returns the Sharing of the lease that req asks for.
func SharingOf(req *driver.Request) Sharing { return Sharing{req.Shared, req.Slots} }

// Joins reports whether a lease may hold its name together with n leases that hold it already. All of these have the
// Sharing held.
func (s Sharing) Joins(n int, held Sharing) bool {
	return n == 0 || s == held && (s.Shared || n < s.Slots)
}

// Agrees returns a *driver.SlotsError if leases hold the name in another number of slots. They have the Sharing held.
func (s Sharing) Agrees(held Sharing) error {
	if s.Slots > 0 && held.Slots > 0 && s.Slots != held.Slots {
		return &driver.SlotsError{Held: held.Slots, Wanted: s.Slots}
	}
	return nil
}

// Front returns how many leases of a queue hold the name: the first ones, as long as all of them may hold it together.
// New leases join the queue at its end, so a lease that holds the name does so until it leaves the queue.
func Front[T any](queue []T, of func(T) Sharing) int {
	for i, lease := range queue {
		if !of(lease).Joins(i, of(queue[0])) {
			return i
		}
	}
	return len(queue)
}
