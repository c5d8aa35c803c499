// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"slices"
	"testing"
)

// A host that is in the configuration twice, with and without TLS, counts once; another port is another server.
func TestHosts(t *testing.T) {
	for url, want := range map[string][]string{
		"postgres://h/d":                              {"h:5432"},
		"postgres://h,g:1,h/d?sslmode=prefer":         {"h:5432", "g:1"},
		"postgres://h:1,h:2/d":                        {"h:1", "h:2"},
		"postgres:///d?host=/run,/run&port=5432,5433": {"/run/.s.PGSQL.5432", "/run/.s.PGSQL.5433"},
	} {
		where, err := parseURL(url, &Options{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if got := hosts(where.config); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
