// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

func TestFormerOwner(t *testing.T) {
	c := New(nil, epoch.Config{})
	defer c.Close()
	a, b := &epoch.Server{}, &epoch.Server{}
	ready := make(chan struct{})
	close(ready)
	c.owners[7] = &node{ready: ready, srv: a}
	if fail := c.left(a, 7); fail != nil {
		t.Errorf("the answer of the owner is not believed: %v", fail.Err)
	}
	c.owners[7] = &node{ready: ready, srv: b}
	if fail := c.left(a, 7); fail == nil || !fail.Maybe || !errors.Is(fail.Err, driver.ErrUncertain) {
		t.Errorf("the answer of the former owner is believed: %v", fail)
	}
}

func TestAnnounced(t *testing.T) {
	for _, c := range [][3]string{
		{"10.0.0.1:7000", "localhost:7001", "10.0.0.1:7000"},
		{":7000", "localhost:7001", "localhost:7000"},
		{"?:7000", "[::1]:7001", "[::1]:7000"},
		{"[::1]:7000", "x:1", "[::1]:7000"},
	} {
		if got := announced(c[0], c[1]); got != c[2] {
			t.Errorf("announced(%q, %q) = %q; want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestSubscriptionFollowsASurvey: the subscription of a slot leaves a node that no longer has the slot, which the
// node itself may not say.
func TestSubscriptionFollowsASurvey(t *testing.T) {
	c := New(nil, epoch.Config{})
	former := &node{addr: "former", ready: make(chan struct{}), srv: &epoch.Server{}, used: driver.Now()}
	close(former.ready)
	c.servers[former.addr] = former
	left := false
	c.subscriptions[0] = &slotSubscription{Subscription: conn.NewSubscription(func(*conn.Subscription) {}), at: former.srv, leave: func() { left = true }}
	all := [][2]int{{0, epoch.SlotCount - 1}}
	if c.take(answer{owners: map[string][][2]int{"former": all}}); left {
		t.Error("the subscription leaves a node that has the slot")
	}
	if c.take(answer{owners: map[string][][2]int{"new": all}}); !left {
		t.Error("the subscription stays at a node that no longer has the slot")
	}
}
