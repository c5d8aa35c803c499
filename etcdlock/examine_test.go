// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

func TestAlarms(t *testing.T) {
	if f := alarms(nil); len(f) != 1 || f[0].Level != driver.Fine {
		t.Errorf("without alarms: %+v", f)
	}
	found := alarms([]*pb.AlarmMember{{MemberID: 0xab, Alarm: pb.AlarmType_NOSPACE}, {MemberID: 0xcd, Alarm: pb.AlarmType_CORRUPT}})
	for i, want := range []string{"member ab has raised the alarm NOSPACE; the server's database is full", "member cd has raised the alarm CORRUPT; etcdctl alarm list"} {
		if f := found[i]; f.Level != driver.Problem || !strings.Contains(f.Text+"; "+f.Do, want) {
			t.Errorf("%+v, want a problem with %q", f, want)
		}
	}
}
