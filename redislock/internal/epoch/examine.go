// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Examine asks the server about its health. It needs no rights beyond those for locks.
func (s *Server) Examine(ctx context.Context) []driver.Finding {
	text, err := s.Do(ctx, s.Client.B().Info().Section("all").Build()).ToString()
	if err != nil {
		return []driver.Finding{s.finding("server", driver.Problem, "it does not say how it is: "+err.Error(),
			"check that it runs, the network on the way, and that its user may INFO")}
	}
	info := ParseInfo(text)
	found := []driver.Finding{
		s.finding("server", driver.Fine, fmt.Sprintf("Redis %s, up for %v", info["redis_version"], time.Duration(number(info, "uptime_in_seconds"))*time.Second), ""),
		s.role(info), s.persistence(info), s.eviction(info), s.clients(info),
	}
	before := time.Now()
	shows, err := s.Do(ctx, s.Client.B().Time().Build()).AsIntSlice()
	if err != nil || len(shows) != 2 {
		return found // without the clock: the server has just answered INFO
	}
	return append(found, storekit.Clock(s.Addr, time.Unix(shows[0], shows[1]*1000), before, time.Now()))
}

func (s *Server) finding(check string, level driver.Level, text, do string) driver.Finding {
	return driver.Finding{Check: check, Server: s.Addr, Level: level, Text: text, Do: do}
}

// role also warns if a master has replicas and min-replicas-to-write is not set: only with that setting
// does INFO count good replicas.
func (s *Server) role(info map[string]string) driver.Finding {
	replicas := number(info, "connected_slaves")
	_, waits := info["min_slaves_good_slaves"]
	switch {
	case info["role"] != "master":
		return s.finding("role", driver.Problem, fmt.Sprintf("it is a %s: locks are granted by masters only", cmp.Or(info["role"], "server without a role")),
			"name the master, or the sentinels with ?master_set=NAME")
	case info["min_slaves_good_slaves"] == "0":
		return s.finding("role", driver.Problem, "a master that refuses to write: too few of its replicas are there", "see INFO replication, and start them")
	case replicas == 0:
		return s.finding("role", driver.Fine, "a master without replicas", "")
	case !waits:
		return s.finding("role", driver.Warning, fmt.Sprintf("a master (replicas: %d) that goes on when it is cut off from them, beside the one that takes over", replicas),
			"CONFIG SET min-replicas-to-write 1, and a min-replicas-max-lag below the sentinels' down-after-milliseconds")
	}
	return s.finding("role", driver.Fine, fmt.Sprintf("a master (replicas: %d) that stops when it is cut off from them", replicas), "")
}

func (s *Server) persistence(info map[string]string) driver.Finding {
	const check = "persistence"
	switch {
	case info["loading"] == "1":
		return s.finding(check, driver.Problem, "it reads its data from disk, and answers nothing meanwhile", "wait")
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err":
		return s.finding(check, driver.Problem, "it cannot write its append-only file, and refuses to write", "see its log, and free some space there")
	case info["rdb_last_bgsave_status"] == "err":
		return s.finding(check, driver.Problem, "it cannot save its data, and by default refuses to write then", "see its log, and free some space and memory there")
	case info["aof_enabled"] == "1":
		return s.finding(check, driver.Fine, "with an append-only file, a restart keeps most leases; nothing new is granted for the longest TTL", "")
	}
	return s.finding(check, driver.Fine, "without an append-only file, a restart ends leases; nothing new is granted for the longest TTL", "")
}

func (s *Server) eviction(info map[string]string) driver.Finding {
	const check = "eviction"
	used, limit := number(info, "used_memory"), number(info, "maxmemory")
	policy := cmp.Or(info["maxmemory_policy"], "noeviction")
	switch {
	case limit == 0:
		return s.finding(check, driver.Fine, "its memory has no limit (maxmemory), so it throws nothing away", "")
	case policy != "noeviction":
		return s.finding(check, driver.Problem, fmt.Sprintf("when it is short of memory it throws locks away (maxmemory-policy %s); then two can hold one", policy),
			"CONFIG SET maxmemory-policy noeviction, or give locks a server of their own")
	case used > limit/10*9:
		return s.finding(check, driver.Warning, fmt.Sprintf("%d%% of its memory is in use; when all is, it refuses to write", used*100/limit), "raise maxmemory, or see what fills it: redis-cli --bigkeys")
	}
	return s.finding(check, driver.Fine, fmt.Sprintf("it throws nothing away (noeviction), and %d%% of its memory is in use", used*100/limit), "")
}

func (s *Server) clients(info map[string]string) driver.Finding {
	have, limit := number(info, "connected_clients"), number(info, "maxclients")
	switch {
	case limit == 0: // an old server
		return s.finding("connections", driver.Fine, fmt.Sprintf("%d connections are in use", have), "")
	case have > limit/10*9:
		return s.finding("connections", driver.Warning, fmt.Sprintf("%d of %d connections are in use; when all are, it refuses clients", have, limit),
			"raise maxclients, or see whose they are: CLIENT LIST")
	}
	return s.finding("connections", driver.Fine, fmt.Sprintf("%d of %d connections are in use", have, limit), "")
}

// number returns the number at key in an answer to INFO, or 0.
func number(info map[string]string, key string) int64 {
	n, _ := strconv.ParseInt(info[key], 10, 64)
	return n
}

// Examine examines several servers at the same time.
func Examine(ctx context.Context, servers []*Server) []driver.Finding {
	each := make([][]driver.Finding, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { each[i] = s.Examine(ctx) })
	}
	all.Wait()
	return slices.Concat(each...)
}
