// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Suffixes of the keys beside a lock. Clients in other languages use them too; see
// docs/redis-protocol.md.
const (
	queueSuffix  = ":queue"
	brokenSuffix = ":broken"
	endedSuffix  = ":ended:" // followed by the lease
)

// parseHeld reads the value of a lock: lease, client, token, time of the grant in
// microseconds since 1970, record. A value of another form is another library's.
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

// parseWaiter reads a member of the queue. Its score is its time of arrival in
// microseconds since 1970.
func parseWaiter(attempt string, score float64) driver.Waiter {
	lease, kind, r := parseAttempt(attempt)
	return driver.Waiter{
		Holder: r.Holder, Lease: lease, Why: r.Why, Holds: r.Holds, Since: time.UnixMicro(int64(score)),
		Shared: kind == shared, Slots: slotsOf(kind),
	}
}
