// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

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
