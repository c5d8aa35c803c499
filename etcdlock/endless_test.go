// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// TestClusterEndsNoLeases: a cluster with the alarm CORRUPT refuses to end etcd leases. The name stays with a holder that
// is gone, and its waiter waits; the error of a request names the alarm. A lease that is renewed lives on. When the alarm is over the
// waiter gets the name.
func TestClusterEndsNoLeases(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	m := startServer(t)
	s := openStore(t, m.url())
	other := openClient(t, m.url(), 2*ttl)
	lives, err := other.Acquire(t.Context(), "lives")
	must(t, err)
	gone := requestFor("deploy", ttl)
	take(t, s, gone) // and nobody renews it
	w := wait(t, s, request("deploy"))
	is, err := s.client.Status(t.Context(), m.Addr)
	must(t, err)
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT, MemberID: is.Header.MemberId}
	if _, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * ttl)
	if n := len(keysOf(t, s, gone)); n != 1 || !w.Waits() {
		t.Errorf("%d keys of the holder, the waiter waits: %v; want that the cluster has not ended the lease", n, w.Waits())
	}
	if _, err := s.TryAcquire(t.Context(), request("free")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Errorf("TryAcquire = %v; want ErrUnavailable that says what to do", err)
	}
	if err := lives.Err(); err != nil {
		t.Errorf("a lease that is renewed: %v", err)
	}
	m.ctl("alarm", "disarm")
	release(t, w.granted(patience))
	if err := lives.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	nothingLeft(t, s)
}
