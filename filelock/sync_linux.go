// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync returns when the content of f is on disk. It does not wait for the time of the change.
func datasync(f *os.File) error {
	return os.NewSyscallError("fdatasync", control(f, fdatasync))
}

var fdatasync = unix.Fdatasync // a variable for the test of power cuts
