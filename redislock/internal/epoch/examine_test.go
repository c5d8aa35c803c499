// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// What INFO says, and what follows from it. The servers themselves are in the tests of cmd/pawl.
func TestExamine(t *testing.T) {
	s := &Server{Config: Config{Addr: "h:6379"}}
	for _, c := range []struct {
		look  func(map[string]string) driver.Finding
		info  string
		level driver.Level
		want  string
	}{
		{s.role, "role:master connected_slaves:0", driver.Fine, "a master without replicas"},
		{s.role, "role:slave connected_slaves:0", driver.Problem, "it is a slave"},
		{s.role, "role:master connected_slaves:2", driver.Warning, "(replicas: 2) that goes on"},
		{s.role, "role:master connected_slaves:2 min_slaves_good_slaves:1", driver.Fine, "(replicas: 2) that stops"},
		{s.role, "role:master connected_slaves:0 min_slaves_good_slaves:0", driver.Problem, "refuses to write"},
		{s.persistence, "aof_enabled:0 rdb_last_bgsave_status:ok", driver.Fine, "without an append-only file"},
		{s.persistence, "aof_enabled:1 aof_last_write_status:ok rdb_last_bgsave_status:ok", driver.Fine, "keeps most leases"},
		{s.persistence, "aof_enabled:1 aof_last_write_status:err", driver.Problem, "cannot write its append-only file"},
		{s.persistence, "aof_enabled:0 rdb_last_bgsave_status:err", driver.Problem, "cannot save"},
		{s.persistence, "loading:1", driver.Problem, "reads its data"},
		{s.eviction, "maxmemory:0 used_memory:5 maxmemory_policy:allkeys-lru", driver.Fine, "no limit"},
		{s.eviction, "maxmemory:1000 used_memory:500 maxmemory_policy:noeviction", driver.Fine, "50% of its memory"},
		{s.eviction, "maxmemory:1000 used_memory:950 maxmemory_policy:noeviction", driver.Warning, "95% of its memory"},
		{s.eviction, "maxmemory:1000 used_memory:5 maxmemory_policy:volatile-ttl", driver.Problem, "maxmemory-policy volatile-ttl"},
		{s.clients, "connected_clients:5 maxclients:100", driver.Fine, "5 of 100"},
		{s.clients, "connected_clients:95 maxclients:100", driver.Warning, "95 of 100"},
		{s.clients, "connected_clients:5", driver.Fine, "5 connections"},
	} {
		f := c.look(ParseInfo(strings.ReplaceAll(c.info, " ", "\r\n")))
		if f.Level != c.level || !strings.Contains(f.Text, c.want) || f.Server != s.Addr || (f.Do == "") != (c.level == driver.Fine) {
			t.Errorf("%s: %+v, want %v %q", c.info, f, c.level, c.want)
		}
	}
}
