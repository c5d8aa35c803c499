// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

// TestTurn: the next turn finds the lock free, also if it begins a tenth early.
func TestTurn(t *testing.T) {
	if a, err := parse("once", strings.Fields("--per 10h x -- cmd")); err != nil || a.minHold != 9*time.Hour || a.Wait.For != 0 || a.BusyCode != 0 {
		t.Errorf("%v; kept for %v, waits for %v, busy is %d", err, a.minHold, a.Wait.For, a.BusyCode)
	}
}

// TestTurnFailed: a command that has failed does not take the turn.
func TestTurnFailed(t *testing.T) {
	args := newArgs(new(cli.App), "once")
	args.per = time.Hour
	r := &runner{args: args}
	for _, c := range []struct {
		status job.Status
		kept   bool
	}{{job.Status{}, true}, {job.Status{Code: 3}, false}, {job.Status{Signal: 15}, false}} {
		if why := r.keeps(c.status, time.Minute); (why != "") != c.kept {
			t.Errorf("after %v it is kept because of %q, want kept %v", c.status, why, c.kept)
		}
	}
}
