// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"strconv"
	"time"
)

// Millis writes d in milliseconds, rounded up.
func Millis(d time.Duration) string { return strconv.FormatInt(Ceil(d), 10) }

// Ceil returns d in milliseconds, rounded up, so that the server never counts
// less than the holder does.
func Ceil(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Bit writes b as a number.
func Bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
