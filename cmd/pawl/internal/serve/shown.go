// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// shown is what is known of a store. All but client belongs to Server.mu.
type shown struct {
	history.Store
	open     func() (*pawl.Client, error)
	client   atomic.Pointer[pawl.Client] // nil until the goroutine that asks has opened it
	wake     chan struct{}
	answered chan struct{} // closed when the store has been asked again

	tried time.Time // when it was asked last
	took  time.Duration
	err   string
	texts map[string]json.RawMessage // the JSON of locks for watchers

	circles   [][]pawl.Blocked // as the last answer has them
	deadlocks [][]string       // that were in the one before, too
}

// ask asks the store once.
func (sh *shown) ask(ctx context.Context) (l history.Look) {
	client := sh.client.Load()
	if client == nil {
		began := time.Now()
		if client, l.Err = sh.open(); l.Err != nil {
			l.At, l.Took = time.Now(), time.Since(began)
			return l
		}
		sh.client.Store(client)
	}
	return history.Ask(ctx, client, func(ctx context.Context) ([]*pawl.Info, error) { return client.List(ctx, "") })
}

func (sh *shown) close() {
	if client := sh.client.Load(); client != nil {
		_ = client.Close() // it has no leases that could be left
	}
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
	sh.tried, sh.took, sh.err = l.At, l.Took, ""
	if l.Err != nil {
		sh.err = l.Err.Error()
	} else {
		sh.look(pawl.Deadlocks(l.Infos))
	}
	news.storeReport, news.Deadlocks = sh.report(), sh.deadlocks
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

// look takes the circles of an answer. Its locks were not all read at the same time: a circle
// that was in the answer before as well was there in between.
func (sh *shown) look(circles [][]pawl.Blocked) {
	same := func(a, b pawl.Blocked) bool {
		return a.Name == b.Name && a.By.Lease == b.By.Lease && a.Waiter.Lease != "" && a.Waiter.Lease == b.Waiter.Lease
	}
	before := sh.circles
	sh.circles, sh.deadlocks = circles, nil
	for _, circle := range circles {
		if !slices.ContainsFunc(before, func(other []pawl.Blocked) bool { return slices.EqualFunc(circle, other, same) }) {
			continue
		}
		var names []string
		for _, b := range circle {
			names = append(names, b.Name)
		}
		sh.deadlocks = append(sh.deadlocks, names)
	}
}
