// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/driver"
)

// supervisor keeps the command and the lease together: it passes signals on,
// and ends the command before the lease ends.
type supervisor struct {
	*runner
	lease    *pawl.Lease
	job      *job.Job
	began    time.Time
	deadline time.Time // that the guard knows
	late     bool      // the guard has heard of a deadline after it had to act on the one before
	asked    time.Time // when the first INT or TERM came
	over     bool      // the command itself has ended
	warn     <-chan time.Time

	interrupted bool // INT came
}

// supervise returns the command's status, or the failure after a loss. It returns when the
// lease may be given back: by --leftovers, what the command has left running counts.
func (s *supervisor) supervise() (job.Status, error) {
	ended := s.job.Ended()
	for {
		// A look at the lease begins each round, and a round takes a second at
		// most: timers stand still while the machine sleeps, leases do not.
		left, limited := s.left()
		if s.lease.Err() != nil || limited && left <= 0 {
			return s.end()
		}
		var tick <-chan time.Time
		if limited {
			// At half time a renewal has moved the deadline, and the guard hears of
			// it in good time: it ends the command a moment after left is over.
			tick = time.After(min(max(left/2, 10*time.Millisecond), left, time.Second))
		}
		select {
		case sig := <-s.job.Stops():
			if s.job.Suspend(sig) && s.lease.Err() == nil {
				s.job.Resume()
			}
		case <-ended:
			if status, err := s.ended(); err != nil || s.leftovers == releaseLeftovers {
				return status, err
			}
			ended = nil
			s.over = true
			s.leave()
		case <-s.emptied():
			return s.job.Status()
		case <-s.warn:
			s.tellLeftovers()
		case sig := <-s.signals:
			s.signal(sig)
		case <-s.lease.Done():
		case <-tick:
		}
	}
}

// emptied returns a channel that is closed when nothing is left, once the command itself
// has ended.
func (s *supervisor) emptied() <-chan struct{} {
	if !s.over {
		return nil
	}
	return s.job.Empty()
}

// ended is the end of the command without our doing. If the lease was lost by
// then, the command may have worked without. If a signal ended it in the time
// in which we should have, or after we were late for the guard, the guard has done
// our work.
func (s *supervisor) ended() (job.Status, error) {
	status, err := s.job.Status()
	if err != nil {
		return status, exit.Fail(exit.System, err.Error(), s.clear("try again"))
	}
	left, limited := s.left()
	if s.lease.Err() != nil || limited && (left <= 0 || s.late) && status.Signal != 0 {
		err := s.cause()
		s.tellLost(err)
		return status, s.lost(err, s.clear(fmt.Sprintf("the command has ended (%v)", status)))
	}
	return status, nil
}

// release gives the lease back after the command's end without our doing. By then nothing is
// left of it, or what is left is to go on without the lease.
func (s *supervisor) release(status job.Status) error {
	err := s.lease.Release(context.Background())
	if errors.Is(err, pawl.ErrLost) {
		return s.lost(err, fmt.Sprintf("by then the command had ended (%v)", status))
	}
	s.released(s.lease, err)
	return nil
}

// clear ends all processes of the job and returns what has happened: then,
// unless some are left. We may not signal those of another user, as sudo makes
// them. A store without expiry asks for the lock and does not take it, so we keep
// it for them.
func (s *supervisor) clear(then string) string {
	if s.job.End(s.killTime(), s.signals) {
		return then
	}
	const left = "the command was killed, but some of its processes have not gone"
	if s.store.Guarantees().Expiry {
		return left
	}
	if !s.json {
		s.say(fmt.Sprintf("pawl: warning: some processes of the command do not end; %q stays locked until they do, or pawl gets INT or TERM", s.name))
	}
	if s.job.Gone(s.signals) {
		return then
	}
	return left
}

// left returns how long the command may go on before it must be asked to stop.
// It tells the guard of a deadline that has moved.
func (s *supervisor) left() (left time.Duration, limited bool) {
	d := s.lease.Deadline()
	if d.IsZero() {
		return 0, false
	}
	// Deadline is computed anew by every call, from clocks that do not agree
	// to the nanosecond.
	if moved := d.Sub(s.deadline); moved > time.Millisecond || moved < -time.Millisecond {
		s.late = s.late || !s.deadline.IsZero() && time.Until(s.deadline) < s.grace-job.Margin(s.grace)
		s.deadline = d
		s.job.Deadline(d)
	}
	return time.Until(d) - s.grace, true
}

// signal passes a signal on to the command's group.
func (s *supervisor) signal(sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case isContinue(sig):
		if s.lease.Err() == nil {
			s.job.Resume()
		}
	case n == syscall.SIGINT || n == syscall.SIGTERM:
		s.interrupted = s.interrupted || n == syscall.SIGINT
		s.ask(n)
	default:
		s.pass(n)
	}
}

// pass sends a signal to the command's group, or to all that it has left running.
func (s *supervisor) pass(sig syscall.Signal) {
	if s.over {
		s.job.SignalAll(sig)
		return
	}
	s.job.Signal(sig)
}

// ask passes on the first INT or TERM. Another one means KILL, but for one that
// comes at once: timeout(1) signals us and then our group, us once more.
func (s *supervisor) ask(sig syscall.Signal) {
	const echo = 200 * time.Millisecond
	switch {
	case s.asked.IsZero():
		s.asked = time.Now()
		s.pass(sig)
	case time.Since(s.asked) > echo:
		s.pass(syscall.SIGKILL)
	}
}

// end ends the command because of the lease, and returns when all of it has
// gone.
func (s *supervisor) end() (job.Status, error) {
	err := s.cause()
	s.tellLost(err)
	then := "the command was stopped"
	if s.over {
		then = "the command had ended, and what it had left running was stopped"
	}
	return job.Status{}, s.lost(err, s.clear(then))
}

// cause returns why the command is ended.
func (s *supervisor) cause() error {
	if err := s.lease.Err(); err != nil {
		return err
	}
	if s.maxHold > 0 && time.Since(s.began) > s.maxHold-s.grace-s.grace/2 {
		return fmt.Errorf("%w: the %v of --max-hold are over, but for the last %v, in which the command has to stop (--grace)", pawl.ErrLost, s.maxHold, driver.ForPeople(s.grace))
	}
	late := fmt.Errorf("%w: it was not renewed until %v before its end", pawl.ErrLost, driver.ForPeople(s.grace))
	if trouble := s.trouble.Load(); trouble != nil {
		return fmt.Errorf("%w (last renewal: %w)", late, *trouble)
	}
	return late
}

// killTime returns when the command must be killed if it does not stop.
func (s *supervisor) killTime() time.Time {
	now, d := time.Now(), s.lease.Deadline()
	kill := now.Add(s.grace)
	if !d.IsZero() {
		if last := d.Add(-job.Margin(s.grace)); last.Before(kill) {
			kill = last
		}
	}
	if s.lease.Err() != nil && s.store.Guarantees().Expiry {
		return now // the store may have given the lock to somebody else
	}
	return kill
}

func (s *supervisor) tellLost(err error) {
	s.tell(event{Event: "lost", Lease: s.lease.ID(), Token: uint64(s.lease.Token()), Error: errorText(err)})
}
