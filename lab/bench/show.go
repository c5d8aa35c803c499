// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// number shows a count or a rate.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// period shows a time in nanoseconds with a suitable unit.
func period(ns float64) string {
	switch {
	case math.IsNaN(ns):
		return ""
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e4:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	case ns < 1e6:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.2f s", ns/1e9)
}

// decimals shows a ratio with n decimals.
func decimals(v float64, n int) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v != 0 && math.Abs(v) < 0.1:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.*f", n, v)
}
