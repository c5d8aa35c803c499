// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"errors"
	"strings"
	"testing"
)

// TestHint: of a connection that was tried with TLS and without, what the server has said
// decides, and the error is one line.
func TestHint(t *testing.T) {
	for text, want := range map[string]string{
		"failed:\n\tserver refused TLS connection\n\tFATAL: role \"x\" does not exist (SQLSTATE 28000)":     "pg_hba.conf",
		"failed:\n\tserver refused TLS connection\n\tFATAL: database \"x\" does not exist (SQLSTATE 3D000)": "a database that exists",
		"server refused TLS connection":         "sslmode=prefer",
		"dial tcp: connect: connection refused": "is the server running",
	} {
		if got := hint(errors.New(text)).Error(); !strings.Contains(got, want) || strings.ContainsAny(got, "\n\t") {
			t.Errorf("%q: %q; want %q, in one line", text, got, want)
		}
	}
}
