// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver"
)

// surrounding returns an error if the lock is held by a "pawl run" around us. inner is the command
// that would wait for it in vain. It is nil if info is: acquiring will tell why.
func surrounding(info *pawl.Info, inner string) error {
	if info == nil {
		return nil
	}
	for _, h := range info.Holders {
		if slices.ContainsFunc(held(), func(outer driver.Hold) bool { return outer.Lease == h.Lease }) {
			return exit.Fail(exit.Busy, fmt.Sprintf("%q: you hold it yourself, in the surrounding pawl run (pid %d)", info.Name, h.PID),
				"use another name, or leave the inner "+inner+" out")
		}
	}
	return nil
}
