// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
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
	looked   driver.Instant // at the lease
	paused   time.Duration  // between two looks since the last renewal: this process did not run
	deadline time.Time      // that the guard knows
	late     bool           // the guard has heard of a deadline after it had to act on the one before
	asked    time.Time      // when the first INT or TERM came
	over     bool           // the command itself has ended
	warn     <-chan time.Time

	gotINT bool // it was INT, or a later one was
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
		select {
		case sig := <-s.job.Stops():
			s.suspend(sig)
		case <-ended:
			if status, err := s.ended(); err != nil || s.args.leftovers == releaseLeftovers {
				return status, err
			}
			ended = nil
			s.over = true
			s.leave()
		case <-s.emptied():
			return s.job.Status()
		case <-s.warn:
			s.tellLeftovers()
		case sig := <-s.Signals:
			s.signal(sig)
		case <-s.lease.Done():
		case <-tick(left, limited):
		}
	}
}

// tick returns a channel that tells when to look again. At half time a renewal has moved the deadline, and
// the guard hears of it in good time: it ends the command a moment after left is over.
func tick(left time.Duration, limited bool) <-chan time.Time {
	if !limited {
		return nil
	}
	return time.After(min(max(left/2, 10*time.Millisecond), left, time.Second))
}

// suspend stops us with the command, as Ctrl-Z does. When we are continued the command is too, unless the
// lease was lost meanwhile.
func (s *supervisor) suspend(sig syscall.Signal) {
	if s.job.Suspend(sig) && s.lease.Err() == nil {
		s.job.Resume()
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
		return status, s.Lost(err, s.clear(fmt.Sprintf("the command has ended (%v)", status)))
	}
	return status, nil
}

// release gives the lease back after the command's end without our doing. By then nothing is
// left of it, or what is left is to go on without the lease.
func (s *supervisor) release(status job.Status) error {
	err := s.lease.Release(context.Background())
	if errors.Is(err, pawl.ErrLost) {
		return s.Lost(err, fmt.Sprintf("by then the command had ended (%v)", status))
	}
	s.Released(s.lease, err)
	return nil
}

// clear ends all processes of the job and returns what has happened: then,
// unless some are left. We may not signal processes of another user, as sudo starts
// them. A store without expiry asks for the lock and does not take it, so we keep
// it for them.
func (s *supervisor) clear(then string) string {
	if s.job.End(s.killTime(), s.Signals) {
		return then
	}
	const left = "the command was killed, but some of its processes still run"
	if s.Store.Guarantees().Expiry {
		return left
	}
	s.Warn(fmt.Sprintf("some processes of the command do not end; %q stays locked until they end, or until pawl gets INT or TERM", s.Name))
	if s.job.Gone(s.Signals) {
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
	now := driver.Now()
	if gap := now.Sub(s.looked); s.looked != 0 && gap > 2*time.Second { // a round takes a second at most
		s.paused = gap
	}
	s.looked = now
	// Deadline is computed anew by every call, from clocks that do not agree
	// to the nanosecond.
	if moved := d.Sub(s.deadline); moved > time.Millisecond || moved < -time.Millisecond {
		s.late = s.late || !s.deadline.IsZero() && time.Until(s.deadline) < s.args.grace-job.Margin(s.args.grace)
		if !s.late {
			s.paused = 0 // it has been renewed since
		}
		s.deadline = d
		s.job.Deadline(d)
	}
	return time.Until(d) - s.args.grace, true
}

// signal passes a signal on to the command's group.
func (s *supervisor) signal(sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case acquire.IsContinue(sig):
		if s.lease.Err() == nil {
			s.job.Resume()
		}
	case n == syscall.SIGINT || n == syscall.SIGTERM:
		s.gotINT = s.gotINT || n == syscall.SIGINT
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

// ask passes on the first INT or TERM. Another one means KILL, unless it comes
// within a second: timeout(1) signals us and then our group, us once more, and on a
// busy machine we may see the second signal late.
func (s *supervisor) ask(sig syscall.Signal) {
	const echo = time.Second
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
	return job.Status{}, s.Lost(err, s.clear(then))
}

// cause returns why the command is ended.
func (s *supervisor) cause() error {
	if err := s.lease.Err(); err != nil {
		return err
	}
	if s.MaxHold > 0 && time.Since(s.began) > s.MaxHold-s.args.grace-s.args.grace/2 {
		return fmt.Errorf("%w: --max-hold %v ends in %v, and the command has to stop before that (--grace)", pawl.ErrLost, s.MaxHold, driver.ForPeople(s.args.grace))
	}
	late := fmt.Errorf("%w: it was not renewed, and ends in %v", pawl.ErrLost, driver.ForPeople(max(time.Until(s.lease.Deadline()), 0)))
	if s.late {
		late = fmt.Errorf("%w: it was renewed too late to keep the command", pawl.ErrLost)
	}
	if s.paused > 0 {
		return fmt.Errorf("%w: this process did not run for %v", late, driver.ForPeople(s.paused))
	}
	if trouble := s.Trouble(); trouble != nil {
		return fmt.Errorf("%w (last renewal: %w)", late, trouble)
	}
	return late
}

// killTime returns when the command must be killed if it does not stop.
func (s *supervisor) killTime() time.Time {
	now, d := time.Now(), s.lease.Deadline()
	kill := now.Add(s.args.grace)
	if !d.IsZero() {
		if last := d.Add(-job.Margin(s.args.grace)); last.Before(kill) {
			kill = last
		}
	}
	if s.lease.Err() != nil && s.Store.Guarantees().Expiry {
		return now // the store may have given the lock to somebody else
	}
	return kill
}

func (s *supervisor) tellLost(err error) {
	s.Tell(acquire.About("lost", s.lease, err))
}
