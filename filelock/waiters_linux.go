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

// whoSuffix ends the name of a symbolic link beside a ticket. The link leads
// nowhere: its target is a text that says who waits. A link appears whole, needs no open
// file, and is read with one call, as Emacs found for its locks.
const whoSuffix = ".who"

// maxTarget is below the 4095 bytes that Linux grants to a link's target.
const maxTarget = 4000

// waiterText is what others are shown of a waiter. It leaves out leases that it holds rather
// than cut their names.
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

// waiters describes the live waiters in order.
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
