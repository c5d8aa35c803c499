// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"slices"
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
