// SPDX-License-Identifier: Apache-2.0

//go:build race

package filelock

// raceFactor is by how much less the processes of a test do when each is slow.
const raceFactor = 5
