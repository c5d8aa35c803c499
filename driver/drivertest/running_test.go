// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

type keeper struct{ on, off chan struct{} }

func (c *keeper) keep() {
	c.on <- struct{}{}
	<-c.off
}

func TestRunning(t *testing.T) {
	const function = "drivertest.(*keeper).keep"
	c := &keeper{make(chan struct{}), make(chan struct{})}
	for n := range 3 {
		if got := Running(function); got != n {
			t.Errorf("Running = %d; want %d", got, n)
		}
		go c.keep()
		<-c.on
	}
	close(c.off)
	if !servers.Eventually(linkPatience, func() bool { return Running(function) == 0 }) {
		t.Error("Running counts goroutines that have ended")
	}
}
