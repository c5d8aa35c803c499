// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// Event is what --events writes. It obeys the rule for schema.
type Event struct {
	Schema     int             `json:"schema"`
	Time       time.Time       `json:"time"`
	Event      string          `json:"event"` // waiting acquired started suspect leftovers lost released exited failed clock
	Name       string          `json:"name"`
	Lease      string          `json:"lease,omitempty"`
	Token      uint64          `json:"token,omitempty"`
	Holders    []report.Holder `json:"holders,omitempty"`    // waiting: who has it
	Ahead      *int            `json:"ahead,omitempty"`      // waiting: how many come before us
	Closed     float64         `json:"closed,omitempty"`     // waiting: for how many seconds the store grants nothing
	Unanswered float64         `json:"unanswered,omitempty"` // waiting: for how many seconds the store has not answered; error says why
	Left       []Left          `json:"left,omitempty"`       // leftovers: what the command has left running
	PID        int             `json:"pid,omitempty"`        // started, exited: the command
	Code       *int            `json:"code,omitempty"`       // exited, failed: exit code
	Signal     int             `json:"signal,omitempty"`     // exited: that ended the command
	Kind       string          `json:"kind,omitempty"`       // failed: busy, lost, unavailable …
	Error      string          `json:"error,omitempty"`      // suspect, lost, released, failed: why; clock: what
}

// Left is a process that a command has left running.
type Left struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// About is an event in the life of a lease. err says why, and may be nil.
func About(event string, lease *pawl.Lease, err error) Event {
	return Event{Event: event, Lease: lease.ID(), Token: uint64(lease.Token()), Error: errorText(err)}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// events writes events to a sink. It never makes anybody wait: the writing
// is done by a goroutine of its own, and when a reader is so slow that the
// queue is full, events are dropped. The command's lock must not depend on
// somebody reading a pipe.
type events struct {
	sink io.Writer
	done chan struct{}

	mu     sync.Mutex
	queue  chan Event
	closed bool
}

func newEvents(sink io.Writer) *events {
	e := &events{sink: sink, done: make(chan struct{}), queue: make(chan Event, 256)}
	go e.write()
	return e
}

func (e *events) write() {
	defer close(e.done)
	enc := json.NewEncoder(e.sink)
	enc.SetEscapeHTML(false)
	for ev := range e.queue {
		_ = enc.Encode(ev) // the reader may have gone
	}
}

func (e *events) tell(ev Event) {
	ev.Schema, ev.Time = report.Schema, time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	select {
	case e.queue <- ev:
	default:
	}
}

// close waits until all is written, for a second at most.
func (e *events) close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.queue)
	}
	e.mu.Unlock()
	select {
	case <-e.done:
	case <-time.After(time.Second):
	}
}

// openSink opens what --events names. The command does not inherit it.
func openSink(where string) (*os.File, error) {
	number, ok := strings.CutPrefix(where, "fd:")
	if !ok {
		f, err := os.OpenFile(where, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return nil, exit.Usage("--events: "+err.Error(), "name a file that can be written, or fd:N")
		}
		return f, nil
	}
	var f *os.File
	fd, err := strconv.Atoi(number)
	if err == nil && fd > 0 {
		f = os.NewFile(uintptr(fd), where)
	}
	if f == nil {
		return nil, exit.Usage(fmt.Sprintf("--events %q: not a file descriptor", display.Shorten(where, 40)), "use something like --events fd:3 3>events.json")
	}
	if _, err := f.Stat(); err != nil {
		return nil, exit.Usage(fmt.Sprintf("--events %s is not open", where), fmt.Sprintf("add a redirection such as %d>events.json", fd))
	}
	if fd > 2 {
		closeOnExec(fd)
	}
	return f, nil
}
