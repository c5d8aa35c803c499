// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// shown is what is known of a store. All but source belongs to Server.mu.
type shown struct {
	history.Store
	source   *history.Source
	wake     chan struct{}
	answered chan struct{} // closed when the store has been asked again

	tried time.Time // when it was asked last
	took  time.Duration
	err   string
	part  bool                       // err is of some names only
	texts map[string]json.RawMessage // the JSON of locks for watchers
}

// take makes l what is known of the store at index i, and tells watchers what has changed.
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

// tell returns the JSON of a lock if it is new to watchers. Renewals are not.
func (sh *shown) tell(l *report.Lock) json.RawMessage {
	steady := *l
	steady.Holders = slices.Clone(steady.Holders)
	for i := range steady.Holders {
		steady.Holders[i].Renewed, steady.Holders[i].Expires = time.Time{}, time.Time{}
	}
	text, err := json.Marshal(steady)
	if err != nil || slices.Equal(text, sh.texts[l.Name]) { // report.LockOf leaves nothing that JSON cannot have
		return nil
	}
	sh.texts[l.Name] = text
	return text
}

// deadlocks returns cycles of names: a holder of each waits for the next.
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
