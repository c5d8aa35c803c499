// SPDX-License-Identifier: Apache-2.0

//go:build !pawltrace

package redlock

import "github.com/pawl-go/pawl/driver"

// watched returns d. See watched.go.
func watched(d *Driver) driver.Driver { return d }
