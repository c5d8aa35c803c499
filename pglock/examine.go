// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Examine implements driver.Store. It needs no rights beyond those that locks need.
func (s *store) Examine(ctx context.Context) []driver.Finding {
	before := time.Now()
	a, err := s.call(ctx, "examine")
	after := time.Now()
	if err != nil {
		return []driver.Finding{s.finding("server", driver.Problem, "it does not say how it is: "+err.Error(), "check that it runs, and the network on the way")}
	}
	row := a.row
	up := micros(row[1])
	return []driver.Finding{
		s.finding("server", driver.Fine, fmt.Sprintf("PostgreSQL %s, up for %v", row[0], up.Truncate(time.Second)), ""),
		s.role(yes(row[3]), string(row[6])),
		s.persistence(yes(row[4]), yes(row[5])),
		s.connections(long(row[7]), long(row[8])),
		s.snapshots(long(row[9]), string(row[10])),
		storekit.Clock(s.where, time.UnixMicro(long(row[2])), before, after),
	}
}

func (s *store) finding(check string, level driver.Level, text, do string) driver.Finding {
	return driver.Finding{Check: check, Server: s.where, Level: level, Text: text, Do: do}
}

func (s *store) role(standby bool, synchronous string) driver.Finding {
	switch {
	case standby:
		return s.finding("role", driver.Problem, "it is a standby, which grants nothing", "name the primary, or several hosts with target_session_attrs=read-write")
	case s.mode == Synchronous && synchronous == "":
		return s.finding("role", driver.Problem, "it waits for no standby (synchronous_standby_names), and grants nothing in the mode synchronous",
			"set synchronous_standby_names, or leave ?mode= out")
	}
	return s.finding("role", driver.Fine, "a primary", "")
}

func (s *store) persistence(fsync, pages bool) driver.Finding {
	const check = "persistence"
	switch {
	case !fsync && s.mode != Async:
		return s.finding(check, driver.Problem, "it does not wait for the disk (fsync is off): a crash of its machine may lose leases, and then two can hold one",
			"set fsync = on, or use ?mode=async, which waits after a crash")
	case !pages && s.mode != Async:
		return s.finding(check, driver.Warning, "a crash of its machine may damage its data (full_page_writes is off)", "set full_page_writes = on, unless the file system does without")
	case s.mode == Async:
		return s.finding(check, driver.Fine, "leases are granted without waiting for the disk; after a crash nothing is granted for the longest TTL", "")
	}
	return s.finding(check, driver.Fine, "a lease is on disk before it is granted", "")
}

func (s *store) connections(have, limit int64) driver.Finding {
	text := fmt.Sprintf("%d of %d connections are in use", have, limit)
	if have > limit/10*9 {
		return s.finding("connections", driver.Warning, text+"; when all are, it refuses clients", "raise max_connections, or put PgBouncer before it")
	}
	return s.finding("connections", driver.Fine, text, "")
}

// manySince is the number of transactions since a snapshot that makes a busy name several times slower.
const manySince = 5000

func (s *store) snapshots(since int64, holder string) driver.Finding {
	if since < manySince {
		return s.finding("snapshots", driver.Fine, "no old snapshot keeps what locks have left behind", "")
	}
	return s.finding("snapshots", driver.Warning, fmt.Sprintf("%s has a snapshot since which %d transactions have begun: locks that are used often get slower until it ends", holder, since),
		"end it, or let backups and long queries run on a replica without hot_standby_feedback")
}
