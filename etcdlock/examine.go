// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// Examine implements driver.Store. It asks the members in the URL.
func (s *store) Examine(ctx context.Context) []driver.Finding {
	endpoints := s.client.Endpoints()
	each := make([][]driver.Finding, len(endpoints))
	var all sync.WaitGroup
	for i, at := range endpoints {
		all.Go(func() { each[i] = s.member(ctx, at) })
	}
	all.Wait()
	found := slices.Concat(each...)
	answer, err := s.client.AlarmList(ctx)
	if err != nil {
		return append(found, driver.Finding{Check: "alarms", Level: driver.Warning, Text: "the alarms cannot be read: " + err.Error(),
			Do: "etcdctl endpoint health --cluster"})
	}
	return append(append(found, alarms(answer.Alarms)...), s.endless(ctx)...)
}

// mostEndless limits how many keys without an etcd lease Examine reports.
const mostEndless = 20

// endless finds keys without an etcd lease. The cluster never deletes them, so they keep a lock for ever.
func (s *store) endless(ctx context.Context) (found []driver.Finding) {
	err := s.each(ctx, "", func(e entry) {
		if e.kv.Lease == 0 && len(found) < mostEndless {
			text, do := e.endless()
			found = append(found, driver.Finding{Check: "keys", Level: driver.Problem, Text: text, Do: do})
		}
	}, clientv3.WithKeysOnly())
	if err != nil {
		found = append(found, driver.Finding{Check: "keys", Text: "not all keys were read: " + err.Error()})
	}
	return found
}

// member examines one member.
func (s *store) member(ctx context.Context, at string) []driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, s.connect)
	defer cancel()
	began := time.Now()
	is, err := s.client.Status(ctx, at)
	if err != nil {
		return []driver.Finding{{Check: "member", Server: at, Level: driver.Warning, Text: "it does not say how it is: " + err.Error(),
			Do: "check that it runs, and the network between: etcdctl endpoint status --cluster"}}
	}
	trip := time.Since(began).Round(100 * time.Microsecond)
	f := driver.Finding{Check: "member", Server: at}
	switch {
	case is.Leader == 0:
		f.Level, f.Text, f.Do = driver.Problem, "it knows no leader, and grants nothing without one", "check that a majority of the members runs: etcdctl endpoint status --cluster"
	case is.IsLearner:
		f.Level, f.Text, f.Do = driver.Warning, "it is a learner, which does not vote and answers few requests", "put another member into the URL, or promote this one: etcdctl member promote"
	case is.Leader == is.Header.GetMemberId():
		f.Text = fmt.Sprintf("etcd %s, the leader, answers within %v", is.Version, trip)
	default:
		f.Text = fmt.Sprintf("etcd %s, a follower, answers within %v", is.Version, trip)
	}
	found := []driver.Finding{f}
	if quota := is.DbSizeQuota; quota > 0 && is.DbSize > quota/10*9 {
		found = append(found, driver.Finding{Check: "space", Server: at, Level: driver.Warning,
			Text: fmt.Sprintf("its database has %d of %d bytes; when it is full the cluster refuses to write", is.DbSize, quota),
			Do:   "compact and defragment it: etcdctl compact, etcdctl defrag"})
	}
	return found
}

func alarms(list []*pb.AlarmMember) []driver.Finding {
	if len(list) == 0 {
		return []driver.Finding{{Check: "alarms", Text: "the cluster has raised no alarm"}}
	}
	var found []driver.Finding
	for _, a := range list {
		f := driver.Finding{Check: "alarms", Level: driver.Problem, Text: fmt.Sprintf("member %x has raised the alarm %v", a.MemberID, a.Alarm), Do: "etcdctl alarm list"}
		if a.Alarm == pb.AlarmType_NOSPACE {
			f.Do = refused(rpctypes.ErrNoSpace).do
		}
		found = append(found, f)
	}
	return found
}
