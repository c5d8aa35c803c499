// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

// childEnv makes the test binary a holder that its parent kills.
const childEnv = "ETCDLOCK_TEST_CHILD"

func child() {}
