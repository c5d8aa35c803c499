// SPDX-License-Identifier: Apache-2.0

//go:build linux && race

package redlock

const raceEnabled = true
