// SPDX-License-Identifier: Apache-2.0

package pglock

import "strings"

// array writes values as an array of PostgreSQL.
func array[T any](all []T, of func(T) string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, a := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(escaper.Replace(of(a)))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
