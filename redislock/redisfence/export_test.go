// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisfence

// Address returns the address of the server of the examples.
func Address() string { return address }
