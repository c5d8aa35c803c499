// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Suspend does what a stop of the command asks for: it gives the command the
// terminal, if that is what it stopped for and we have it; otherwise it stops
// our own process group, so that the shell gets the terminal, and returns when
// it is continued. It reports whether the command is to be resumed.
//
// STOP does not come from the keyboard: its sender continues the command in the
// same way.
func (j *Job) Suspend(sig syscall.Signal) bool {
	if j.tty == nil || sig == syscall.SIGSTOP {
		return false
	}
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		j.tty.wanted = true
		if j.tty.mine() {
			return true // Resume gives it
		}
	}
	j.tty.takeBack(j.pid)
	StopSelf()
	return true
}

// StopSelf stops our whole process group, as the keyboard does, and returns when we are continued: a script that
// waits for us is what the shell knows as the job.
func StopSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	defer defaultStop()()
	_ = syscall.Kill(0, syscall.SIGTSTP) // which may come after this has returned
	select {
	case <-continued:
	case <-time.After(orphanWait):
	}
}

// orphanWait is how long to wait for our own stop. Where nobody could continue
// us, because we are the first process of a terminal's session, the kernel does
// not stop us, and the command goes on at once.
const orphanWait = 200 * time.Millisecond

// Resume continues the command, in the foreground if we are there and it is to
// have the terminal.
func (j *Job) Resume() {
	if j.tty.handOver() {
		j.tty.give(j.pid)
	}
	j.Signal(syscall.SIGCONT)
}
