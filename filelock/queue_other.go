// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filelock

import "github.com/pawl-go/pawl/driver"

// There is no queue: package pawl polls. Waiting for a FIFO to lose its last
// reader needs a poller that tells, and kqueue does not (golang.org/issue/24164).

func (s *store) lined(string) bool { return false }

func (s *store) waiters(string) []driver.Waiter { return nil }
