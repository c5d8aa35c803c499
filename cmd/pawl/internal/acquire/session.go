// SPDX-License-Identifier: Apache-2.0

// Package acquire gets a lease for the commands run, elect, once, hold and acquire. Meanwhile it
// tells people and programs what happens, and handles signals.
package acquire

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
)

// Session is one run of a command that takes leases, with an open store.
type Session struct {
	*Args
	Store   *stores.Store
	Signals chan os.Signal
	Known   bool // the store has told us the holder, or that we have the lock

	events  *events
	trouble atomic.Pointer[error] // the error of the last renewal that failed
	opens   atomic.Int64          // when the store grants again, in Unix nanoseconds
	news    chan struct{}         // receives when opens has changed, or when the store is silent
	waiting atomic.Bool           // Acquire waits for the lock
}

// Run calls do with a session whose store is open, and writes an event if do fails. Other users
// see the text command as the holder's command.
func Run(args *Args, command string, do func(*Session) (int, error)) error {
	sink, err := openSink(args.Events)
	if err != nil {
		return err
	}
	s := &Session{Args: args, Signals: make(chan os.Signal, 16), events: newEvents(sink), news: make(chan struct{}, 1)}
	defer s.events.close()
	if s.Code, err = s.opened(command, do); err == nil {
		return nil
	}
	f := exit.As(err)
	if f.Kind == exit.Kinds[exit.Busy] {
		f.Code = s.BusyCode
		f.Told = s.Quiet
	}
	s.Tell(Event{Event: "failed", Kind: f.Kind, Code: &f.Code, Error: f.Error()})
	return f
}

// Tell writes an event for programs.
func (s *Session) Tell(e Event) {
	e.Name = s.Name
	s.events.tell(e)
}

// opened opens the store, directs signals to s.Signals, and calls do.
func (s *Session) opened(command string, do func(*Session) (int, error)) (int, error) {
	opts := &pawl.Options{
		TTL:      s.TTL,
		Holder:   pawl.Holder{Who: s.Who, PID: s.pid(), Command: command},
		Observer: s.observer(),
	}
	var err error
	if s.Store, err = stores.Open(s.App.Store, s.Connect, opts, true); err != nil {
		return 0, err
	}
	defer s.Store.Close()

	keepWriting()
	listen(s.Signals, ending)
	defer signal.Stop(s.Signals)
	return do(s)
}

// observer tells the user what happens to leases and their store.
func (s *Session) observer() pawl.Observer {
	return pawl.Observer{Suspect: s.suspect, Closed: s.closed, Stepped: s.stepped, Silent: s.silent, Refused: s.refusing}
}

// Released tells that the lease was released, or that the release failed with err.
func (s *Session) Released(lease *pawl.Lease, err error) {
	s.Tell(About("released", lease, err))
	if err != nil {
		select { // the process ends soon; give the warning at most a second
		case <-s.Warn(strings.TrimPrefix(err.Error(), "pawl: ") + "; the store ends the lease after its TTL"):
		case <-time.After(time.Second):
		}
	}
}

// Lost returns the failure for a lease that was lost with err. then tells what happened to the command.
func (s *Session) Lost(err error, then string) error {
	text := err.Error()
	if l := new(pawl.LostError); errors.As(err, &l) {
		text = l.Error()
	}
	return exit.Fail(exit.Lost, fmt.Sprintf("%q: %s; %s", s.Name, text, then), "see: "+s.Store.Show(s.Name))
}

// Signalled returns the failure for a signal that ends pawl while no command runs. It
// returns nil for the signals in others: they were meant for a command that has ended.
func (s *Session) Signalled(sig os.Signal) error {
	if !slices.Contains(ending, sig) {
		return nil
	}
	s.Interrupted = sig == syscall.SIGINT
	return exit.Interrupted(sig)
}

// Pending returns the failure for a signal that has arrived, if the signal ends pawl.
func (s *Session) Pending() error {
	select {
	case sig := <-s.Signals:
		return s.Signalled(sig)
	default:
		return nil
	}
}

// Forward directs the signals in others to s.Signals, so that they can be forwarded to the
// command. After stop they act on this process again.
func (s *Session) Forward() (stop func()) {
	listen(s.Signals, others)
	return unlisten
}

// Trouble returns the error of the last renewal that failed, or nil.
func (s *Session) Trouble() error {
	if err := s.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Note writes a line on stderr, unless --quiet is set.
func (s *Session) Note(line string) {
	if !s.Quiet {
		s.say(line)
	}
}

// Warn writes a warning on stderr, as say does.
func (s *Session) Warn(text string) <-chan struct{} { return s.say("pawl: warning: " + text) }

// say writes a line on stderr in a goroutine, and closes the result when the line is
// written. Important work must not wait for that: after Ctrl-S on the terminal, or with
// a full pipe, the write takes for ever.
func (s *Session) say(line string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fmt.Fprintln(s.Stderr, display.Printable(line))
	}()
	return done
}

// Keep keeps the lease until end, or until a signal that ends pawl. It returns an error if the
// lease is lost before that.
func (s *Session) Keep(lease *pawl.Lease, end driver.Instant) error {
	for {
		if err := lease.Err(); err != nil {
			return err
		}
		left := end.Sub(driver.Now())
		if left <= 0 {
			return nil
		}
		select {
		case sig := <-s.Signals:
			if slices.Contains(ending, sig) {
				return nil
			}
		case <-lease.Done():
		case <-time.After(min(left, time.Second)): // timers stand still while the machine sleeps
		}
	}
}
