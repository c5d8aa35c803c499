// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"reflect"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/client"
)

// inside returns what a client of package pawl consists of, for what a test cannot bring about from outside.
func inside(c *pawl.Client) *client.Client {
	return (*client.Client)(reflect.ValueOf(c).Elem().FieldByName("core").UnsafePointer())
}

// stopTimers stops the client's timers, as a suspend of the machine does.
func stopTimers(c *pawl.Client) { inside(c).StopTimers() }

// holdScheduler keeps the contexts of leases that end open, until the function that it returns is called.
func holdScheduler(c *pawl.Client) (release func()) { return inside(c).HoldScheduler() }
