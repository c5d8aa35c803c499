// SPDX-License-Identifier: Apache-2.0

package storekit

import "strings"

// ShellQuote makes a text one word of a shell, for a command to paste.
func ShellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
