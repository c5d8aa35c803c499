// SPDX-License-Identifier: Apache-2.0

package storekit

import "slices"

// Nearest returns the one of names that a user who typed word probably meant, or "". others maps
// other words for names to them.
func Nearest(word string, names []string, others map[string]string) string {
	if name := others[word]; slices.Contains(names, name) {
		return name
	}
	best, fewest := "", 2+len(word)/5 // a slip in a short word, two in a longer one
	for _, name := range names {
		if n := slips(word, name); n < fewest {
			best, fewest = name, n
		}
	}
	return best
}

// slips returns how many letters to insert, delete, replace, or swap with the next one, to turn a
// into b.
func slips(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // too long for a typed word
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
				}
			}
		}
	}
	return rows[len(a)][len(b)]
}
