// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// shown is what the server knows about a store. Server.mu guards all fields but source.
type shown struct {
	history.Store
	source   *history.Source
	wake     chan struct{}
	answered chan struct{} // closed after the next look

	tried time.Time // when the store was asked last
	took  time.Duration
	err   string
	part  bool                       // err is about some names only
	texts map[string]json.RawMessage // by name: the JSON that watchers got last
}

// take updates the store at index i with l, and tells the watchers about changes.
func (s *Server) take(i int, l history.Look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.stores[i]
	defer func(c chan struct{}) { close(c) }(sh.answered)
	sh.answered = make(chan struct{})
	news := change{Store: sh.Name}
	spans, gone := s.history.Take(&sh.Store, &l)
	for _, info := range l.Infos {
		if text := sh.tell(&sh.Locks[info.Name].Lock); text != nil {
			news.Locks = append(news.Locks, text)
		}
	}
	for _, name := range gone {
		delete(sh.texts, name)
	}
	news.Gone = gone
	sh.tried, sh.took, sh.err, sh.part = l.At, l.Took, "", false
	if l.Err != nil {
		sh.err, sh.part = l.Err.Error(), l.Answered()
	}
	news.storeReport, news.Deadlocks, news.Often = sh.report(), sh.deadlocks(), sh.Changing()
	s.broadcast(message{Now: l.At.UnixMilli(), Stores: []change{news}, Spans: spans})
}

// tell returns the JSON of a lock if it differs from the JSON that watchers have. It ignores renewals.
func (sh *shown) tell(l *report.Lock) json.RawMessage {
	steady := *l
	steady.Holders = slices.Clone(steady.Holders)
	for i := range steady.Holders {
		steady.Holders[i].Renewed, steady.Holders[i].Expires = time.Time{}, time.Time{}
	}
	text, err := json.Marshal(steady)
	if err != nil || slices.Equal(text, sh.texts[l.Name]) { // err is nil: JSON can express every report.LockOf
		return nil
	}
	sh.texts[l.Name] = text
	return text
}

// deadlocks returns cycles of names: a holder of each name waits for the next name.
func (sh *shown) deadlocks() (all [][]string) {
	for _, cycle := range sh.Deadlocks {
		var names []string
		for _, b := range cycle {
			names = append(names, b.Name)
		}
		all = append(all, names)
	}
	return all
}

// metrics are the metrics of each store. They have no label for the name of a lock, because there may be any number of names.
var metrics = []struct{ name, help string }{
	{"up", "1 if the store answered when it was asked last."},
	{"answered_seconds", "Seconds since the store answered last."},
	{"ask_duration_seconds", "Seconds that the last request to the store took."},
	{"locks_held", "Names that somebody holds."},
	{"leases", "Leases that are held; several of them may be on one name."},
	{"leases_overdue", "Leases that have not been renewed for half of their time."},
	{"waiters", "Waiters for all names."},
	{"oldest_lease_seconds", "Age of the oldest lease in seconds."},
	{"longest_wait_seconds", "Longest wait so far in seconds."},
	{"quarantine_seconds", "Seconds until the store grants leases again."},
}

// numbers returns the values of the metrics. A metric that is missing is 0.
func (sh *shown) numbers(now time.Time) map[string]float64 {
	n := map[string]float64{"answered_seconds": seconds(now, sh.Asked), "ask_duration_seconds": sh.took.Seconds()}
	if sh.err == "" && !sh.Asked.IsZero() {
		n["up"] = 1
	}
	if sh.State.Shut() != "" {
		n["quarantine_seconds"] = max(sh.State.Until.Sub(now).Seconds(), 0)
	}
	for _, l := range sh.Locks {
		if l.Held {
			n["locks_held"]++
		}
		for _, h := range l.Holders {
			n["leases"]++
			n["oldest_lease_seconds"] = max(n["oldest_lease_seconds"], seconds(now, h.Acquired))
		}
		for _, w := range l.Waiters {
			n["waiters"]++
			n["longest_wait_seconds"] = max(n["longest_wait_seconds"], seconds(now, w.Since))
		}
		for _, sp := range l.Spans {
			if sp.State == "overdue" {
				n["leases_overdue"]++
			}
		}
	}
	return n
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	s.refresh(r.Context())
	s.mu.Lock()
	numbers := map[string]map[string]float64{}
	for _, sh := range s.stores {
		numbers[sh.Name] = sh.numbers(time.Now())
	}
	s.mu.Unlock()
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP pawl_serve_%s %s\n# TYPE pawl_serve_%[1]s gauge\n", m.name, m.help)
		for _, sh := range s.stores {
			fmt.Fprintf(&b, "pawl_serve_%s{store=\"%s\"} %g\n", m.name, label.Replace(sh.Name), numbers[sh.Name][m.name])
		}
	}
	reply(w, "text/plain; version=0.0.4; charset=utf-8", []byte(b.String()))
}

var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// seconds returns how many seconds ago t was, or 0 if t is zero or in the future: another
// machine's clock may be wrong.
func seconds(now, t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(now.Sub(t).Seconds(), 0)
}
