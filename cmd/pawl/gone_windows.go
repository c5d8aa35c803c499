// SPDX-License-Identifier: Apache-2.0

package main

// processGone is not known here.
func processGone(int) bool { return false }
