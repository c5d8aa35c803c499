// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// storeReport says whether a store answers, and its state.
type storeReport struct {
	Asked time.Time     `json:"asked,omitzero"` // when it answered last; the locks are from then
	Took  float64       `json:"took"`           // how many seconds the last look took
	Error string        `json:"error,omitempty"`
	Part  bool          `json:"partly,omitempty"` // the error is about some names only
	State *report.State `json:"state,omitempty"`
}

func (sh *shown) report() storeReport {
	return storeReport{sh.Asked, sh.took.Seconds(), sh.err, sh.part, sh.State}
}

// message is an event for watchers. The first has everything that the server knows; each later one has changes.
type message struct {
	Schema int             `json:"schema"`
	All    bool            `json:"all,omitempty"`   // this message replaces all before it
	Break  bool            `json:"break,omitempty"` // with all: the server has /api/break
	Now    int64           `json:"now"`             // our clock, in milliseconds
	Stores []change        `json:"stores"`
	Spans  []*history.Span `json:"spans,omitempty"` // new and changed ones
}

// change is the changes in a store.
type change struct {
	Store string `json:"store"`
	storeReport
	Locks []json.RawMessage `json:"locks,omitempty"` // as in report.Lock, without the instants that a renewal moves
	Gone  []string          `json:"gone,omitempty"`  // names that nobody holds or waits for any more
	// Deadlocks are cycles of names: a holder of each name waits for the next name.
	Deadlocks [][]string `json:"deadlocks,omitempty"`
	// Often has the names that change hands often, and how many leases of each began in the last ten seconds.
	Often map[string]int `json:"often,omitempty"`
}

// broadcast sends m to all watchers. It cuts off a watcher that does not keep up: the browser
// connects again and gets everything anew.
func (s *Server) broadcast(m message) {
	if len(s.watchers) == 0 {
		return
	}
	data := m.encode()
	for w := range s.watchers {
		select {
		case w <- data:
		default:
			close(w)
			delete(s.watchers, w)
		}
	}
}

func (m message) encode() []byte {
	m.Schema = report.Schema
	data, err := json.Marshal(m)
	if err != nil {
		data = fmt.Appendf(nil, `{"schema":%d,"stores":[]}`, report.Schema) // cannot happen with these types
	}
	return data
}

// all returns a message with everything that the server knows.
func (s *Server) all() message {
	m := message{All: true, Break: s.Break, Now: time.Now().UnixMilli()}
	m.Spans = append(m.Spans, s.history.Ended()...)
	for _, sh := range s.stores {
		c := change{Store: sh.Name, storeReport: sh.report(), Deadlocks: sh.deadlocks(), Often: sh.Changing()}
		for _, name := range sh.Names() {
			c.Locks = append(c.Locks, sh.texts[name])
		}
		m.Spans = append(m.Spans, sh.Spans()...)
		m.Stores = append(m.Stores, c)
	}
	return m
}

// watch adds a watcher and returns its channel. The first message in the channel is all.
func (s *Server) watch() chan []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := make(chan []byte, 8+len(s.stores))
	w <- s.all().encode()
	s.watchers[w] = true
	for _, sh := range s.stores {
		wakeUp(sh.wake)
	}
	return w
}

func (s *Server) unwatch(w chan []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// stream writes server-sent events to out until a write fails or ctx ends.
func (s *Server) stream(ctx context.Context, out io.Writer) {
	w := s.watch()
	defer s.unwatch(w)
	alive := time.NewTicker(5 * time.Second)
	defer alive.Stop()
	for {
		var err error
		select {
		case data, ok := <-w:
			if !ok {
				return
			}
			_, err = fmt.Fprintf(out, "data: %s\n\n", data)
		case <-alive.C:
			_, err = io.WriteString(out, ": alive\n\n")
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
