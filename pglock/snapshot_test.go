// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestExamineSnapshot: an old snapshot, which keeps the old versions of rows, is named.
func TestExamineSnapshot(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	d := open(t, p.URL("pawl"), nil)
	c := connect(t, p.URL("pawl"))
	for _, statement := range []string{"SET application_name = 'dump'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"} {
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []driver.Level{driver.Fine, driver.Warning} {
		found := false
		for _, f := range d.Examine(t.Context()) {
			if f.Check == "snapshots" {
				found = true
				if who := fmt.Sprintf("process %d of dump has", c.PgConn().PID()); f.Level != want || strings.Contains(f.Text, who) != (want == driver.Warning) {
					t.Errorf("%+v; want %v", f, want)
				}
			}
		}
		if !found {
			t.Error("nothing is said of snapshots")
		}
		sql(t, p, fmt.Sprintf("DO 'BEGIN FOR i IN 1 .. %d LOOP PERFORM txid_current(); COMMIT; END LOOP; END'", manySince))
	}
}
