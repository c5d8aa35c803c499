// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// hear turns one message into an event.
func (s *store) hear(from conn.Session, message string) {
	kind, rest, _ := strings.Cut(message, " ")
	lease, rest, _ := strings.Cut(rest, " ")
	e := driver.Event{Lease: lease}
	switch kind {
	case "grant":
		e.Kind, e.Heard = driver.Granted, driver.Now()
		run, key := readTerms(&e, rest)
		e.Name, _ = s.layout.Name(key)
		if at := s.server.At(key); at != nil && at.Runs(run) && s.prompt {
			e.Grant.Session, e.Grant.Server = session{from, run}, at.Addr
		}
	case "first":
		ms, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return
		}
		e.Kind, e.Grant.Free = driver.Look, untilFree(ms)
	case "wanted":
		e.Kind, e.Waits = driver.Wanted, rest != "0"
	case "lost":
		e.Kind, e.Loss = driver.Lost, storekit.HowLost(rest)
	default:
		return
	}
	s.events.Put(e)
}

// unguardedRun stands for the run in a message of a server without a usable run_id. Such a message only makes waiters look.
const unguardedRun = "-"

// readTerms reads the terms of a hand-off: token, server time in microseconds, claim in ms, run, number of reserved
// tokens, whether others wait, and the key of the lock, which may contain spaces. It returns the run and the key, or
// unguardedRun if a term cannot be read.
func readTerms(e *driver.Event, terms string) (run, key string) {
	f := strings.SplitN(terms, " ", 7)
	if len(f) < 7 {
		return unguardedRun, ""
	}
	token, err1 := strconv.ParseUint(f[0], 10, 64)
	at, err2 := strconv.ParseInt(f[1], 10, 64)
	claim, err3 := strconv.ParseInt(f[2], 10, 64)
	spare, err4 := strconv.ParseUint(f[4], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return unguardedRun, f[6]
	}
	e.Grant.Token, e.Grant.Spare, e.Grant.Waited = token, spare, f[5] != "0"
	e.Grant.At, e.For = time.Duration(at)*time.Microsecond, time.Duration(claim)*time.Millisecond
	return f[3], f[6]
}
