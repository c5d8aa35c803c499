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

// supervisor watches over a command and its lease: it passes signals on to the
// command, and ends the command before the lease ends.
type supervisor struct {
	*runner
	lease    *pawl.Lease
	job      *job.Job
	began    time.Time
	looked   driver.Instant // when left was called last
	paused   time.Duration  // how long this process did not run, since the last renewal
	deadline time.Time      // the last deadline that we sent to the guard
	late     bool           // we sent a deadline when the guard already had to act on the one before
	asked    time.Time      // when the first INT or TERM came
	over     bool           // the command itself has ended
	warn     <-chan time.Time

	gotINT bool // one of these signals was INT
}

// supervise returns the command's status, or the failure if the lease was lost. It returns when
// the lease may be released: when the command has ended, and, unless --leftovers is release, no process
// of the job is left.
func (s *supervisor) supervise() (job.Status, error) {
	ended := s.job.Ended()
	for {
		// Each round begins with a look at the lease, and takes a second at most: timers
		// stand still while the machine sleeps, but the time of a lease goes on.
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

// tick returns a channel that receives when supervise has to look at the lease again: when half of left is
// over. By then a renewal has moved the deadline, and supervise can tell the guard early enough. The guard would
// end the command soon after left is over.
func tick(left time.Duration, limited bool) <-chan time.Time {
	if !limited {
		return nil
	}
	return time.After(min(max(left/2, 10*time.Millisecond), left, time.Second))
}

// suspend stops pawl, because the command has been stopped, as by Ctrl-Z. When pawl is continued, it continues the
// command, unless the lease was lost meanwhile.
func (s *supervisor) suspend(sig syscall.Signal) {
	if s.job.Suspend(sig) && s.lease.Err() == nil {
		s.job.Resume()
	}
}

// emptied returns nil until the command itself has ended. Then it returns a channel that is
// closed when no process of the job is left.
func (s *supervisor) emptied() <-chan struct{} {
	if !s.over {
		return nil
	}
	return s.job.Empty()
}

// ended handles a command that pawl has not ended, and returns its status. It returns
// the failure for a lost lease in two cases. If the lease has been lost, the command may
// have worked without it. If a signal ended the command when pawl should have ended
// it, or after pawl sent a deadline too late, then the guard has ended the command.
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

// release releases the lease after the command has ended by itself. By then no process of the
// job is left, or --leftovers lets the rest go on without the lease.
func (s *supervisor) release(status job.Status) error {
	err := s.lease.Release(context.Background())
	if errors.Is(err, pawl.ErrLost) {
		return s.Lost(err, fmt.Sprintf("by then the command had ended (%v)", status))
	}
	s.Released(s.lease, err)
	return nil
}

// clear ends all processes of the job. It returns a text about the result: then if no
// process is left. Processes of another user, which sudo starts, can survive, because
// pawl may not signal them. In a store without expiry only the holder can release the
// lock, so pawl keeps the lock until those processes end.
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

// left returns how long the command may go on before pawl has to send TERM. If the
// deadline has moved, it tells the guard.
func (s *supervisor) left() (left time.Duration, limited bool) {
	d := s.lease.Deadline()
	if d.IsZero() {
		return 0, false
	}
	now := driver.Now()
	if gap := now.Sub(s.looked); s.looked != 0 && gap > 2*time.Second { // supervise calls left at least once a second
		s.paused = gap
	}
	s.looked = now
	// Each call of Deadline converts between two clocks, so its result varies by some
	// nanoseconds.
	if moved := d.Sub(s.deadline); moved > time.Millisecond || moved < -time.Millisecond {
		s.late = s.late || !s.deadline.IsZero() && time.Until(s.deadline) < s.args.grace-job.Margin(s.args.grace)
		if !s.late {
			s.paused = 0 // the lease has been renewed since the pause
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

// pass sends a signal to the command's group, or, if the command has ended, to every process that it left
// running.
func (s *supervisor) pass(sig syscall.Signal) {
	if s.over {
		s.job.SignalAll(sig)
		return
	}
	s.job.Signal(sig)
}

// ask passes on the first INT or TERM. For a later one it sends KILL, unless that comes
// within a second: timeout(1) sends a signal to pawl and then to pawl's group, so pawl gets
// it twice. On a busy machine the second may come late.
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

// end ends the command because the lease is lost or about to end. It returns when all
// processes of the job have ended, or cannot be ended.
func (s *supervisor) end() (job.Status, error) {
	err := s.cause()
	s.tellLost(err)
	then := "the command was stopped"
	if s.over {
		then = "the command had ended, and what it had left running was stopped"
	}
	return job.Status{}, s.Lost(err, s.clear(then))
}

// cause returns why pawl ends the command.
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

// killTime returns when to send KILL to a command that does not stop.
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
