// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestKeepIdleDeaf: through a pooler no message comes. A lease says so, or its client would keep it although nobody
// can ask for it; and it does not say that it may be kept: whoever tries would ask again, for nothing, before it is
// refused.
func TestKeepIdleDeaf(t *testing.T) {
	t.Parallel()
	p := server(t)
	a, b := open(t, servers.StartPgBouncer(t, p, "").URL(), wide), open(t, p.URL("pawl"), wide)
	a.listening(t)
	req := request("deaf keeper", time.Minute)
	req.Keeps = true
	if ans, err := a.wire.Ask(t.Context(), req); err != nil || !ans.Granted || ans.Session != nil {
		t.Errorf("Ask = %+v, %v; want a grant without a session", ans, err)
	}
	if info, err := b.Inspect(t.Context(), req.Name); err != nil || len(info.Holders) != 1 || info.Holders[0].Keeps {
		t.Errorf("%+v, %v", info, err)
	}
}
