// SPDX-License-Identifier: Apache-2.0

package storekit

import "strings"

// ShellQuote quotes s as one word of a shell, for commands that users paste.
func ShellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
