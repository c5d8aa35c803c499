// SPDX-License-Identifier: Apache-2.0

// Package redlock keeps leases on N independent Redis masters, by the Redlock
// algorithm with fencing tokens.
package redlock
