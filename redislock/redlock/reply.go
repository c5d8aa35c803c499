// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// readLock reads the value of a lock: lease, client, token, microseconds since 1970
// at the grant, record. Anything else is the lock of another library.
func readLock(value string, left time.Duration, shared bool) Lock {
	l := Lock{Lease: value, Left: left, Shared: shared}
	if f := strings.SplitN(value, " ", 5); len(f) == 5 {
		l.Lease, l.Token, l.Record = f[0], number(f[2]), f[4]
		l.Granted = time.UnixMicro(int64(number(f[3])))
	}
	return l
}

// readStates reads what the scripts' function add has appended for n names.
func readStates(r []rueidis.RedisMessage, n int) ([]State, error) {
	states := make([]State, n)
	for i := range states {
		const each = 6
		if len(r) < each || len(r)-each < 2*count(r[0]) {
			return nil, errGarbled
		}
		s, locks, shared := &states[i], count(r[0]), count(r[1]) == 1
		s.Floor, s.Waiters, s.Wishes, s.Wished = number(text(r[2])), count(r[3]), count(r[4]), millis(r[5])
		r = r[each:]
		for range locks {
			s.Locks = append(s.Locks, readLock(text(r[0]), millis(r[1]), shared))
			r = r[2:]
		}
	}
	if len(r) > 0 {
		return nil, errGarbled
	}
	return states, nil
}

func text(m rueidis.RedisMessage) string {
	s, _ := m.ToString()
	return s
}

func count(m rueidis.RedisMessage) int {
	n, _ := m.AsInt64()
	return int(n)
}

func millis(m rueidis.RedisMessage) time.Duration {
	return time.Duration(count(m)) * time.Millisecond
}

// number reads the number that s begins with: a floor has a lease after it.
func number(s string) uint64 {
	s, _, _ = strings.Cut(s, " ")
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}
