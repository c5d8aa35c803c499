// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// whoSuffix ends the name of a symbolic link beside a ticket. The target of the link is not a path, but a text
// that describes the waiter. A link appears whole, needs no open file, and is read with one call. Emacs does the
// same for its locks.
const whoSuffix = ".who"

// maxTarget is below the 4095 bytes that a link's target may have on Linux.
const maxTarget = 4000

// waiterText returns the text that describes a waiter to others. If the text is too long, it leaves out some of
// the leases that the waiter holds; it does not shorten their names.
func waiterText(req *driver.Request) string {
	var text []byte
	for holds := req.Holds; ; holds = holds[1:] {
		shorten(*req.Holder, req.Why, func(h driver.Holder, why string) bool {
			text, _ = json.Marshal(driver.Waiter{Holder: h, Lease: req.Lease, Why: why, Shared: req.Shared, Slots: req.Slots, Holds: holds})
			return len(text) <= maxTarget
		})
		if len(text) <= maxTarget || len(holds) == 0 {
			return string(text)
		}
	}
}

// waiters returns the live waiters in order.
func (s *store) waiters(enc string) []driver.Waiter {
	q := s.queue(enc)
	tickets, _ := q.list()
	var ws []driver.Waiter
	for _, t := range tickets {
		if !q.alive(t) {
			continue
		}
		var w driver.Waiter
		if text, err := os.Readlink(q.path(t) + whoSuffix); err == nil {
			_ = json.Unmarshal([]byte(text), &w)
		}
		if w.PID == 0 {
			w.PID, w.Space = t.pid, t.space
		}
		w.Host = cmp.Or(w.Host, host())
		w.Since = time.Unix(0, int64(min(t.seq, math.MaxInt64)))
		ws = append(ws, w)
	}
	return ws
}

var host = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
