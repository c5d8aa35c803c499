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

	// lastWait is how long to wait for processes to end after KILL. Only a process
	// that is stuck in the kernel needs longer, for example on a dead network disk.
	lastWait = 5 * time.Second
)

// targets describes the processes of a job: the command's process group, and the
// descendants that have left it.
type targets struct {
	group int // the process group; 0: not known; see led
	root  int // the job has the descendants of this process; 0: none
	guard int // the guard does not belong to the job

	reaped *atomic.Bool // whether the leader of the group has been reaped; nil: never

	// others are children that root had before the job began. A shell that started
	// background jobs and then executed pawl leaves such children. They and their
	// descendants do not belong to the job. But if such a child ends first, its own
	// children count as part of the job.
	others []process
}

// terminate sends TERM to all processes of the job, and continues the stopped ones so
// that they can end.
func (t *targets) terminate() {
	t.each(syscall.SIGTERM)
	t.wake()
}

// kill sends KILL to each process of a job until none is left, for at most lastWait, and
// reports whether none is left. It repeats because processes may fork while each
// lists them.
func kill(each func(syscall.Signal), none func() bool) bool {
	for end := time.Now().Add(lastWait); ; time.Sleep(pollInterval / 4) {
		each(syscall.SIGKILL)
		if none() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
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

// Signal sends sig to the command's group. If the command has ended, it sends sig to every
// process that the command left running.
func (j *Job) Signal(sig syscall.Signal) {
	t := j.targets()
	if group := t.led(); group > 0 { // asked once: the command may end at any time
		_ = syscall.Kill(-group, sig)
	} else {
		t.each(sig)
	}
}

// SignalAll sends sig to the command and to every process that came from it.
func (j *Job) SignalAll(sig syscall.Signal) { j.targets().each(sig) }

// Left returns the processes of the job that still run: their ids and the names of
// their programs.
func (j *Job) Left() map[int]string { return j.targets().names() }

// End ends the command and every process that came from it. It sends TERM now. It
// sends KILL at the time at, or when INT, TERM or QUIT arrives on hurry. It reports
// whether no process is left.
func (j *Job) End(at time.Time, hurry <-chan os.Signal) bool {
	j.forced = true
	j.mu.Lock()
	j.guard.say("stopping")
	j.mu.Unlock()
	j.targets().terminate()
	// KILL does not rely on the guard, which may be killed meanwhile.
	return j.await(time.After(time.Until(at)), hurry) || kill(j.SignalAll, j.isEmpty)
}

// Gone waits until the processes that survived End have ended. It returns false when
// INT, TERM or QUIT arrives on hurry.
func (j *Job) Gone(hurry <-chan os.Signal) bool { return j.await(nil, hurry) }

// await waits until no process of the job is left. It returns false when over receives, or when INT, TERM or
// QUIT arrives on hurry.
func (j *Job) await(over <-chan time.Time, hurry <-chan os.Signal) bool {
	for {
		select {
		case <-j.empty:
			return true
		case <-over:
			return false
		case sig := <-hurry:
			if sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT {
				return false
			}
		}
	}
}

func (j *Job) isEmpty() bool { return isDone(j.empty) }
