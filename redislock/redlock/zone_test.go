// SPDX-License-Identifier: Apache-2.0

package redlock

import "testing"

func TestZoneOfAnAddress(t *testing.T) {
	_, places, err := parseURL("redlock://[fe80::1%25eth0]:6379,[fe80::2%25eth0]:6379,[fe80::3%25eth0]:6379", &Options{})
	if err != nil || len(places) != 3 {
		t.Errorf("%d nodes, %v; want 3", len(places), err)
	}
}
