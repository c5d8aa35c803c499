// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// leader returns the leader among ms, and the others.
func leader(t testing.TB, ms []*member) (*member, []*member) {
	t.Helper()
	var first *member
	var rest []*member
	found := eventually(patience, func() bool {
		first, rest = nil, nil
		for _, m := range ms {
			if m.leads() {
				first = m
			} else {
				rest = append(rest, m)
			}
		}
		return first != nil
	})
	if !found {
		t.Fatal("the cluster has no leader")
	}
	return first, rest
}

// leads reports whether m takes itself for the leader.
func (m *member) leads() bool {
	out, err := exec.Command("etcdctl", "--endpoints", m.Addr, "--command-timeout", "1s", "endpoint", "status", "-w", "json").Output()
	var status []struct {
		Status struct {
			Header struct {
				Member uint64 `json:"member_id"`
			} `json:"header"`
			Leader uint64 `json:"leader"`
		}
	}
	return err == nil && json.Unmarshal(out, &status) == nil && len(status) == 1 &&
		status[0].Status.Leader == status[0].Status.Header.Member
}

func urlOf(ms ...*member) string {
	var addrs []string
	for _, m := range ms {
		addrs = append(addrs, m.Addr)
	}
	return "etcd://" + strings.Join(addrs, ",")
}

// TestCutOffMember: the holder asks a member, leader or not, that cannot reach the
// majority. It must stop before the next holder starts.
func TestCutOffMember(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		t.Run(map[bool]string{true: "leader", false: "follower"}[leads], func(t *testing.T) {
			t.Parallel()
			ms := startCluster(t, 3)
			const ttl = 6 * time.Second
			mine, rest := leader(t, ms)
			if !leads {
				mine, rest = rest[0], []*member{mine, rest[1]}
			}
			a, b := openClient(t, mine.url(), ttl), openStore(t, urlOf(rest...))
			held, err := a.Acquire(t.Context(), "deploy")
			must(t, err)
			w := wait(t, b, request("deploy"))
			for _, m := range rest {
				m.Stop()
			}
			time.Sleep(ttl + time.Second)
			mine.Stop() // those who go on have to do without it
			for _, m := range rest {
				m.Cont()
			}
			next := w.granted(2 * patience)
			if held.Err() == nil {
				t.Error("the next lease has begun while the first is trusted")
			}
			release(t, next)
			mine.Cont()
		})
	}
}
