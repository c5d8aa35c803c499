// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Names of what is in the store; docs/redis-protocol.md is the contract with
// clients in other languages.
const (
	queueSuffix  = ":queue"
	brokenSuffix = ":broken"
	endedSuffix  = ":ended:" // and the lease
)

// splitGrant splits what follows the lease in a message that hands over a lock: its key and
// the terms. Without a pattern the key ends with a brace, and no term contains one. With
// one the terms are six words.
func splitGrant(layout *keys.Layout, rest string) (lock, terms string) {
	if layout.Pattern == "" {
		i := strings.LastIndexByte(rest, '}') + 1
		return rest[:i], rest[i:]
	}
	i := len(rest)
	for range 6 {
		i = max(0, strings.LastIndexByte(rest[:i], ' '))
	}
	return rest[:i], rest[i:]
}

// parseHeld reads the value of a lock: lease, client, token, microseconds since
// 1970 at the grant, record. Anything else is the lock of another library.
func parseHeld(value string, pttl int64, now time.Time) driver.Held {
	h := driver.Held{Lease: value}
	if f := strings.SplitN(value, " ", 5); len(f) == 5 {
		r := storekit.ReadRecord(f[4])
		h.Lease, h.Holder, h.Why, h.Keeps = f[0], r.Holder, r.Why, r.Keeps
		token, _ := strconv.ParseUint(f[2], 10, 64)
		h.Token = driver.Token(token)
		if us, err := strconv.ParseInt(f[3], 10, 64); err == nil {
			h.Acquired = time.UnixMicro(us)
		}
	} else {
		h.Who = "a client of another library"
	}
	if pttl >= 0 {
		h.Expires = now.Add(time.Duration(pttl) * time.Millisecond)
	}
	return h
}

// parseWaiter reads a member of the queue. Its score is the time in microseconds at
// which it came.
func parseWaiter(attempt string, score float64) driver.Waiter {
	lease, kind, r := parseAttempt(attempt)
	return driver.Waiter{
		Holder: r.Holder, Lease: lease, Why: r.Why, Holds: r.Holds, Since: time.UnixMicro(int64(score)),
		Shared: kind == shared, Slots: slotsOf(kind),
	}
}
