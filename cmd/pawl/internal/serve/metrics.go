// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// metric is a number of each store. Names of locks are not in it: they may be any number.
type metric struct {
	name, help string
	of         func(sh *shown, now time.Time) float64
}

var metrics = []metric{
	{"pawl_serve_up", "1 if the store answered when it was asked last.", func(sh *shown, _ time.Time) float64 {
		if sh.err != "" || sh.Asked.IsZero() {
			return 0
		}
		return 1
	}},
	{"pawl_serve_answered_seconds", "Seconds since the store answered last.", func(sh *shown, now time.Time) float64 {
		return seconds(now, sh.Asked)
	}},
	{"pawl_serve_ask_duration_seconds", "Seconds that the last request to the store took.", func(sh *shown, _ time.Time) float64 { return sh.took.Seconds() }},
	{"pawl_serve_locks_held", "Names that somebody holds.", func(sh *shown, _ time.Time) (n float64) {
		for _, l := range sh.Locks {
			if l.Held {
				n++
			}
		}
		return n
	}},
	{"pawl_serve_leases", "Leases that are held; several of them may be on one name.", func(sh *shown, _ time.Time) (n float64) {
		for _, l := range sh.Locks {
			n += float64(len(l.Holders))
		}
		return n
	}},
	{"pawl_serve_leases_overdue", "Leases that have not been renewed for half of their time.", func(sh *shown, _ time.Time) (n float64) {
		for _, l := range sh.Locks {
			for _, sp := range l.Spans {
				if sp.State == "overdue" {
					n++
				}
			}
		}
		return n
	}},
	{"pawl_serve_waiters", "Waiters for all names.", func(sh *shown, _ time.Time) (n float64) {
		for _, l := range sh.Locks {
			n += float64(len(l.Waiters))
		}
		return n
	}},
	{"pawl_serve_oldest_lease_seconds", "Age of the oldest lease in seconds.", func(sh *shown, now time.Time) (oldest float64) {
		for _, l := range sh.Locks {
			for _, h := range l.Holders {
				oldest = max(oldest, seconds(now, h.Acquired))
			}
		}
		return oldest
	}},
	{"pawl_serve_longest_wait_seconds", "Longest wait so far in seconds.", func(sh *shown, now time.Time) (longest float64) {
		for _, l := range sh.Locks {
			for _, w := range l.Waiters {
				longest = max(longest, seconds(now, w.Since))
			}
		}
		return longest
	}},
	{"pawl_serve_quarantine_seconds", "Seconds until the store grants leases again.", func(sh *shown, now time.Time) float64 {
		if sh.State == nil || sh.State.Closed == "" {
			return 0
		}
		return max(sh.State.Until.Sub(now).Seconds(), 0)
	}},
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	s.refresh(r.Context())
	var b strings.Builder
	s.mu.Lock()
	now := time.Now()
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
		for _, sh := range s.stores {
			fmt.Fprintf(&b, "%s{store=\"%s\"} %g\n", m.name, label.Replace(sh.Name), m.of(sh, now))
		}
	}
	s.mu.Unlock()
	reply(w, "text/plain; version=0.0.4; charset=utf-8", []byte(b.String()))
}

var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// seconds returns how long ago t was, or 0 if that is not known or in the future: clocks
// of others may be wrong.
func seconds(now, t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(now.Sub(t).Seconds(), 0)
}
