// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"net"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A server that is not there is told of, in time. One that is there is in the tests of cmd/pawl.
func TestExamineNobody(t *testing.T) {
	s := &store{addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, timeout: 5 * time.Second, dial: new(net.Dialer).DialContext}
	found := s.examineAll(t.Context())
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	for i, f := range found {
		if f.Level != driver.Warning || f.Server != s.addrs[i] || f.Text == "" || f.Do == "" {
			t.Errorf("%+v", f)
		}
	}
}
