// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"os"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func TestExamine(t *testing.T) {
	dir := t.TempDir()
	d, err := NewStore(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if found := d.Examine(t.Context()); len(found) != 1 || found[0].Level != driver.Fine {
		t.Errorf("of a directory: %+v", found)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	found := d.Examine(t.Context())
	if len(found) != 1 || found[0].Level != driver.Problem || found[0].Do == "" {
		t.Errorf("of a directory that has gone: %+v", found)
	}
}
