// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// Event is a line that --events writes. It obeys the rule for schema.
type Event struct {
	Schema     int         `json:"schema"`
	Time       time.Time   `json:"time"`
	Event      string      `json:"event"` // waiting acquired started suspect leftovers lost released exited failed clock
	Name       string      `json:"name"`
	Lease      string      `json:"lease,omitempty"`
	Token      uint64      `json:"token,omitempty"`
	Holders    []pawl.Held `json:"holders,omitempty"`    // waiting: who has it
	Ahead      *int        `json:"ahead,omitempty"`      // waiting: how many come before us
	Closed     float64     `json:"closed,omitempty"`     // waiting: the store grants nothing for so many seconds
	Unanswered float64     `json:"unanswered,omitempty"` // waiting: the store has not answered for so many seconds; error says why
	Left       []Left      `json:"left,omitempty"`       // leftovers: processes that the command left running
	PID        int         `json:"pid,omitempty"`        // started, exited: the command
	Code       *int        `json:"code,omitempty"`       // exited, failed: exit code
	Signal     int         `json:"signal,omitempty"`     // exited: the signal that ended the command
	Kind       string      `json:"kind,omitempty"`       // failed: busy, lost, unavailable …
	Error      string      `json:"error,omitempty"`      // suspect, lost, released, failed: why; clock: what
}

// Left is a process that a command has left running.
type Left struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// About returns an event of a lease. err says why it happened, and may be nil.
func About(event string, lease *pawl.Lease, err error) Event {
	return Event{Event: event, Lease: lease.ID(), Token: uint64(lease.Token()), Error: errorText(err)}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// events writes events to a sink. Nobody waits for it: a separate goroutine writes, and
// tell drops events when the queue is full because the reader is slow. A lock must
// not depend on somebody who reads a pipe.
type events struct {
	queue chan *Event   // nil is the last
	done  chan struct{} // closed when all are written
}

func newEvents(sink io.Writer) *events {
	e := &events{make(chan *Event, 256), make(chan struct{})}
	go e.write(sink)
	return e
}

func (e *events) write(sink io.Writer) {
	defer close(e.done)
	enc := json.NewEncoder(sink)
	enc.SetEscapeHTML(false)
	for ev := range e.queue {
		if ev == nil {
			return
		}
		_ = enc.Encode(ev) // the reader may have gone
	}
}

func (e *events) tell(ev Event) {
	ev.Schema, ev.Time = report.Schema, time.Now()
	select {
	case e.queue <- &ev:
	default:
	}
}

// close waits until all events are written, for at most a second. Later events are dropped.
func (e *events) close() {
	late := time.After(time.Second)
	select {
	case e.queue <- nil:
	case <-late:
		return
	}
	select {
	case <-e.done:
	case <-late:
	}
}

// openSink opens the file or descriptor that --events names. The command does not inherit it.
func openSink(where string) (io.Writer, error) {
	if where == "" {
		return io.Discard, nil
	}
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

func (s *Session) suspect(e pawl.Event) {
	if e.Err != nil {
		s.trouble.Store(&e.Err)
	}
	s.Tell(Event{Event: "suspect", Lease: e.Lease, Token: uint64(e.Token), Error: errorText(e.Err)})
}

// closed notes that the store grants nothing for a while.
func (s *Session) closed(e pawl.Event) {
	s.opens.Store(time.Now().Add(e.Left).UnixNano())
	s.wake()
}

// wake makes the loop in Acquire look at the lock again and tell what it sees.
func (s *Session) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// quarantine returns how long the store grants nothing, as far as it has told us.
func (s *Session) quarantine() time.Duration { return max(0, time.Until(time.Unix(0, s.opens.Load()))) }

// silent tells that the store does not answer. What we said before about the holder and the queue
// may have changed since.
func (s *Session) silent(e pawl.Event) {
	text := fmt.Sprintf("%s does not answer; silent for %v", e.Server, e.Waited.Round(time.Second))
	s.Tell(Event{Event: "silent", Error: text})
	if s.waiting.Load() {
		s.wake() // the next look tells more
		return
	}
	if !s.Quiet {
		s.Warn(text)
	}
}

// refusing tells why a store that answers refuses requests.
func (s *Session) refusing(e pawl.Event) {
	text := "the store refuses requests: " + strings.TrimPrefix(exit.Plain(e.Err), pawl.ErrUnavailable.Error()+": ")
	s.Tell(Event{Event: "refused", Error: text})
	if !s.Quiet {
		s.Warn(text)
	}
}

func (s *Session) stepped(e pawl.Event) {
	what, so := "forward", "locks may have ended early"
	if e.Step < 0 {
		what, so = "back", "locks of crashed holders last that much longer, unless they are broken"
	}
	text := fmt.Sprintf("the clock of %s was set %s by %v: %s", e.Server, what, e.Step.Abs().Round(time.Millisecond), so)
	s.Tell(Event{Event: "clock", Error: text})
	s.Warn(text)
}
