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

// The kinds of a lease, as the store writes them. The kind of a lease on a slot is the
// number of slots, in decimal digits.
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

// attemptText returns an attempt: the text that stands for a lease in the queue, and in
// the sorted set of a lock that several leases hold together.
func attemptText(lease, client, kind, record string) string {
	return lease + " " + client + " " + kind + " " + record
}

// parseAttempt splits an attempt. If s is no attempt, kind is empty.
func parseAttempt(s string) (lease, kind string, r storekit.Record) {
	f := strings.SplitN(s, " ", 4)
	if len(f) < 4 {
		return s, "", storekit.Record{}
	}
	return f[0], f[2], storekit.ReadRecord(f[3])
}

// A lock that several leases hold together is a sorted set. Each lease has two members.
// The first is the attempt; its score is the end of the lease in microseconds since 1970.
// The second is tokenMark and the attempt; its score is the token, negated.
const tokenMark = "@"

// readSharers returns the holders of such a lock, in the order of their tokens. It leaves
// out leases that have ended by the time at.
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
			Acquired: time.UnixMicro(int64(token)), // wrong only if the clock was set back
			Expires:  ends, Shared: kind == shared, Slots: slotsOf(kind),
		})
	}
	slices.SortStableFunc(holders, func(a, b driver.Held) int { return cmp.Compare(a.Token, b.Token) })
	return holders
}

// holders reads the holders from the reply of a script. If value is empty, several leases hold the lock: sharers.
func holders(value string, pttl int64, sharers rueidis.RedisMessage) []driver.Held {
	if value != "" {
		return []driver.Held{parseHeld(value, pttl, time.Now())}
	}
	members, _ := sharers.AsZScores()
	return readSharers(members, time.Time{}) // the script has already removed leases that have ended
}
