// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// The kinds of lease as they are in the store; the kind of a slot is the number of
// slots.
const (
	exclusive = "exclusive"
	shared    = "shared"
)

func kindOf(isShared bool, slots int) string {
	switch {
	case isShared:
		return shared
	case slots > 0:
		return strconv.Itoa(slots)
	}
	return exclusive
}

func slotsOf(kind string) int {
	n, _ := strconv.Atoi(kind)
	return n
}

// attemptText is an attempt as it is in the queue, and among the leases that hold a
// lock together.
func attemptText(lease, client, kind, record string) string {
	return lease + " " + client + " " + kind + " " + record
}

// parseAttempt reads what attemptText has made.
func parseAttempt(s string) (lease, kind string, r storekit.Record) {
	f := strings.SplitN(s, " ", 4)
	if len(f) < 4 {
		return s, "", storekit.Record{}
	}
	return f[0], f[2], storekit.ReadRecord(f[3])
}

// A lock that several hold together is a sorted set, with two members for each lease: the
// attempt, with the end of the lease in microseconds since 1970, and the same
// behind tokenMark, with the token as a negative number.
const tokenMark = "@"

// readSharers reads the members of such a lock, in the order of the tokens. Leases that
// have ended by the time at are left out; with the zero time none is left out.
func readSharers(members []rueidis.ZScore, at time.Time) (holders []driver.Held) {
	tokens := make(map[string]uint64)
	for _, m := range members {
		if attempt, ok := strings.CutPrefix(m.Member, tokenMark); ok {
			tokens[attempt] = uint64(-m.Score)
		}
	}
	for _, m := range members {
		token := tokens[m.Member]
		ends := time.UnixMicro(int64(m.Score))
		if token == 0 || !ends.After(at) {
			continue
		}
		lease, kind, r := parseAttempt(m.Member)
		holders = append(holders, driver.Held{
			Holder: r.Holder, Lease: lease, Token: driver.Token(token), Why: r.Why,
			Acquired: time.UnixMicro(int64(token)), // unless the clock was set back
			Expires:  ends, Shared: kind == shared, Slots: slotsOf(kind),
		})
	}
	slices.SortStableFunc(holders, func(a, b driver.Held) int { return cmp.Compare(a.Token, b.Token) })
	return holders
}

// parseSharers is readSharers for the answer of a script, which alternates members and
// scores. The script has left out leases that have ended.
func parseSharers(reply rueidis.RedisMessage) []driver.Held {
	flat, err := reply.AsStrSlice()
	if err != nil {
		return nil
	}
	var members []rueidis.ZScore
	for pair := range slices.Chunk(flat, 2) {
		if len(pair) == 2 {
			score, _ := strconv.ParseFloat(pair[1], 64)
			members = append(members, rueidis.ZScore{Member: pair[0], Score: score})
		}
	}
	return readSharers(members, time.Time{})
}

// holders reads the holders that a script has returned: the value of the lock and its PTTL, or the leases that hold it
// together.
func holders(value string, pttl int64, sharers rueidis.RedisMessage) []driver.Held {
	if value != "" {
		return []driver.Held{parseHeld(value, pttl, time.Now())}
	}
	return parseSharers(sharers)
}
