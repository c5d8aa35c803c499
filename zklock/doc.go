// SPDX-License-Identifier: Apache-2.0

// Package zklock keeps leases in ZooKeeper.
package zklock
