// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"reflect"
	"sync"

	"github.com/pawl-go/pawl"
)

// inside returns an unexported field of a client, for what a test cannot bring about from outside.
func inside(c *pawl.Client, field string) reflect.Value {
	f := reflect.ValueOf(c).Elem().FieldByName(field)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// stopTimers stops the client's timers, as a suspend of the machine does.
func stopTimers(c *pawl.Client) { inside(c, "sched").MethodByName("Stop").Call(nil) }

// holdScheduler keeps the contexts of leases that end open, until the function that it returns is called.
func holdScheduler(c *pawl.Client) (release func()) {
	return inside(c, "sched").MethodByName("Hold").Call(nil)[0].Interface().(func())
}

// holdRenewals makes renewals that are due wait as if too many others were under way, until the function that it
// returns is called.
func holdRenewals(c *pawl.Client) (release func()) {
	return inside(c, "renewals").MethodByName("Hold").Call(nil)[0].Interface().(func())
}

// lines returns how many names have a line.
func lines(c *pawl.Client) int {
	mu := inside(c, "mu").Addr().Interface().(*sync.Mutex)
	mu.Lock()
	defer mu.Unlock()
	return inside(c, "lines").Len()
}

// holderInLine returns what holds name in this client: the lease of a caller, or what keeps a grant that nobody uses.
func holderInLine(c *pawl.Client, name string) *pawl.Lease {
	mu := inside(c, "mu").Addr().Interface().(*sync.Mutex)
	mu.Lock()
	defer mu.Unlock()
	line := inside(c, "lines").MapIndex(reflect.ValueOf(name))
	return line.MethodByName("Holder").Call(nil)[0].Interface().(*pawl.Lease)
}
