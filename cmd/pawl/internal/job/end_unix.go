// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	pollInterval = 20 * time.Millisecond

	// lastWait is how long to wait for processes to vanish after KILL. Only
	// one that is stuck in the kernel, as on a dead network disk, needs longer.
	lastWait = 5 * time.Second
)

// targets are the processes of a job: a process group, and what has left it.
type targets struct {
	group int // 0: not known; see led
	root  int // descendants of this process belong to the job; 0: none
	guard int // except for this one

	reaped *atomic.Bool // the leader of the group has been; nil: never

	// others are children that root had before the job, from a program that it
	// was before an exec: a shell's background jobs. They and their descendants
	// do not belong to it, unless the children end before theirs do.
	others []process
}

// terminate asks all to end, also those that are stopped.
func (t *targets) terminate() {
	t.each(syscall.SIGTERM)
	t.wake()
}

// kill ends all and reports whether none is left within d. It repeats itself
// because they may fork while we look.
func (t *targets) kill(d time.Duration, none func() bool) bool {
	for end := time.Now().Add(d); ; {
		t.each(syscall.SIGKILL)
		if none() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pollInterval / 4)
	}
}

func (t *targets) each(sig syscall.Signal) {
	if group := t.led(); group > 0 {
		_ = syscall.Kill(-group, sig)
	}
	for _, s := range t.strays() {
		s.signal(sig)
	}
}

func groupExists(id int) bool {
	return id > 0 && syscall.Kill(-id, 0) != syscall.ESRCH
}

func (j *Job) targets() *targets {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := &targets{group: j.pid, reaped: &j.reaped, root: j.guard.pid, guard: j.guard.pid, others: j.others}
	if j.adopted {
		t.root, t.guard = os.Getpid(), 0
	}
	return t
}

// Signal sends sig to the command's group, or, if the command has ended, to all that is left of it.
func (j *Job) Signal(sig syscall.Signal) {
	t := j.targets()
	if group := t.led(); group > 0 { // asked once: the command may end at any time
		_ = syscall.Kill(-group, sig)
	} else {
		t.each(sig)
	}
}

// SignalAll sends sig to everything that came from the command.
func (j *Job) SignalAll(sig syscall.Signal) { j.targets().each(sig) }

// Left returns the process ids of what is left of the job, and the names of
// their programs.
func (j *Job) Left() map[int]string { return j.targets().names() }

// End ends the command and everything that came from it: TERM now, and KILL at
// kill or when something arrives on hurry. It reports whether nothing is left.
func (j *Job) End(kill time.Time, hurry <-chan os.Signal) bool {
	j.forced = true
	j.mu.Lock()
	j.guard.say("stopping")
	j.mu.Unlock()
	j.targets().terminate()
	timer := time.NewTimer(time.Until(kill))
	defer timer.Stop()
	for {
		select {
		case <-j.empty:
			return true
		case sig := <-hurry:
			if isEnding(sig) {
				return j.kill()
			}
		case <-timer.C:
			return j.kill()
		}
	}
}

// Gone waits for the end of what End has left, and returns false when something
// that should end us arrives on hurry.
func (j *Job) Gone(hurry <-chan os.Signal) bool {
	for {
		select {
		case <-j.empty:
			return true
		case sig := <-hurry:
			if isEnding(sig) {
				return false
			}
		}
	}
}

func isEnding(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT
}

// kill does not rely on the guard, which may be killed meanwhile.
func (j *Job) kill() bool {
	for end := time.Now().Add(lastWait); ; {
		j.targets().each(syscall.SIGKILL)
		select {
		case <-j.empty:
			return true
		case <-time.After(pollInterval / 4):
		}
		if time.Now().After(end) {
			return false
		}
	}
}
