// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filelock

import "os"

// datasync returns when the content of f is on the disk.
func datasync(f *os.File) error { return f.Sync() }
