// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestOtherVersion: a client refuses a schema that is newer or older than its own, and says what to do.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	p := server(t)
	opts := &Options{Schema: "versions"}
	open(t, p.URL("pawl"), opts)
	for _, v := range []string{"0", "2"} {
		sql(t, p, "UPDATE versions.meta SET version = "+v)
		d, err := NewStore(t.Context(), p.URL("pawl"), opts)
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "is of version "+v+", and this client works with version 1 only: use a pawl that has version "+v) {
			t.Errorf("version %s: %v", v, err)
		}
	}
}
