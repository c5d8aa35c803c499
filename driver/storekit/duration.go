// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"strings"
	"time"
)

// Typed writes d as people type it: 24h, not 24h0m0s.
func Typed(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
