// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filelock

// networkFS is known on Linux only.
func networkFS(string) string { return "" }
