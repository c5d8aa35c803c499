// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package redislock

const raceEnabled = false
