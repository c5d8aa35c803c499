// SPDX-License-Identifier: Apache-2.0

//go:build linux

package serve

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestPageOfThreeHosts: of forty locks one is stuck, two are in a deadlock and one flaps. The page
// names all three. It is the picture in docs/operations.md.
func TestPageOfThreeHosts(t *testing.T) {
	needBrowser(t)
	c := &crowd{T: t}
	c.hold("ci-1", "ledger/close", "fixing March by hand")
	c.wait("ci-2", "ledger/close", "nightly")
	c.waiting("ledger/close", 1)
	entangle(t, [2]*pawl.Client{c.client("ci-1"), c.client("ci-2")}, [2]string{"stock", "invoice"})
	for i := range 36 {
		c.hold("ci-3", fmt.Sprintf("job/%02d", i), "")
	}
	for _, host := range []string{"ci-2", "ci-3"} {
		l := c.client(host)
		go func() {
			for t.Context().Err() == nil {
				_ = l.Do(t.Context(), "leader", func(ctx context.Context, _ *pawl.Lease) error {
					select {
					case <-ctx.Done():
					case <-time.After(300 * time.Millisecond):
					}
					return nil
				})
			}
		}()
	}
	p := browse(t, c.served(Options{}))
	p.look(1200, 1040, "light")
	began := time.Now()
	p.until(`document.querySelector('#rows th')?.textContent`, "ledger/close") // the first
	p.until(`document.getElementById('deadlock').textContent.startsWith('Deadlock: 2 waiters')`, "true")
	p.until(`/^Waits longest, for \d+s: ci@ci-2 .*, for ledger\/close held by ci@ci-1/.test(document.getElementById('longest').textContent)`, "true")
	p.until(`document.getElementById('often').textContent.startsWith('Changes hands often: leader (')`, "true")
	t.Logf("named after %v", time.Since(began))
	p.eval(`document.getElementById('waited').click(); document.getElementById('span').value = '2'; document.getElementById('span').dispatchEvent(new Event('change'))`)
	p.until(`document.querySelectorAll('#rows tr').length >= 3`, "true")
	p.shoot("operations", false)
	if said := p.said(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
