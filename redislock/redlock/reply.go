// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/redis/rueidis"
)

// readLock reads the value of a lock: lease, client, token, microseconds since 1970
// at the grant, record. Anything else is the lock of another library.
func readLock(value string, left time.Duration, shared bool) nodewire.Lock {
	l := nodewire.Lock{Lease: value, Left: left, Shared: shared}
	if f := strings.SplitN(value, " ", 5); len(f) == 5 {
		l.Lease, l.Token, l.Record = f[0], number(f[2]), f[4]
		l.Granted = time.UnixMicro(int64(number(f[3])))
	}
	return l
}

// readState reads the state of a name, in the form that the function add of state.lua gives it. rest is what follows.
func readState(r []rueidis.RedisMessage) (s nodewire.State, rest []rueidis.RedisMessage, err error) {
	const each = 6
	if len(r) < each || len(r)-each < 2*count(r[0]) {
		return s, nil, errGarbled
	}
	locks, shared := count(r[0]), count(r[1]) == 1
	s.Waiters, s.Wishes, s.Wished = count(r[3]), count(r[4]), millis(r[5])
	s.Floor, s.Writer = readFloor(text(r[2]))
	for r = r[each:]; locks > 0; locks-- {
		s.Locks = append(s.Locks, readLock(text(r[0]), millis(r[1]), shared))
		r = r[2:]
	}
	return s, r, nil
}

// readQueue reads the waiters in the queue of a name, as read.lua gives them. rest is what follows.
func readQueue(r []rueidis.RedisMessage) (queue []nodewire.Place, rest []rueidis.RedisMessage, err error) {
	if len(r) < 1 || len(r)-1 < 3*count(r[0]) {
		return nil, nil, errGarbled
	}
	n := count(r[0])
	for r = r[1:]; n > 0; n-- {
		queue = append(queue, nodewire.Place{Lease: text(r[0]), Place: number(text(r[1])), Record: text(r[2])})
		r = r[3:]
	}
	return queue, r, nil
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

// readFloor reads the record of a floor, "TOKEN LEASE KIND BEFORE WRITER". It returns TOKEN,
// and the largest token of a writer. KIND says who has stored TOKEN: a writer (w), a reader
// (r) or an attempt that failed (x). BEFORE and WRITER are the largest tokens before that,
// of any lease and of writers. Tokens of failed attempts do not count for them.
func readFloor(s string) (floor, writer uint64) {
	f := strings.Split(s, " ")
	if len(f) == 5 && f[2] != "w" {
		return number(f[0]), number(f[4])
	}
	return number(f[0]), number(f[0])
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}
