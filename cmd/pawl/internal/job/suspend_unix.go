// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Suspend reacts when the signal sig has stopped the command, and reports whether to
// resume the command. If the command stopped because it needs the terminal, and our group
// has the terminal, Resume will give it to the command. Otherwise Suspend stops our own process group, so
// that the shell gets the terminal, and returns when the group is continued.
//
// STOP does not come from the keyboard. Suspend leaves the command stopped, because the
// sender of STOP will also send CONT.
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

// StopSelf stops our whole process group, as Ctrl-Z does, and returns when we are continued. The
// whole group has to stop, because it may contain a script that waits for us, and the shell waits
// for the script.
func StopSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	defer defaultStop()()
	_ = syscall.Kill(0, syscall.SIGTSTP) // the signal may arrive after Kill has returned
	select {
	case <-continued:
	case <-time.After(orphanWait):
	}
}

// orphanWait is how long to wait for our own stop to take effect. If we are the first
// process of a terminal's session, nobody could continue us. Then the kernel does not
// stop us, and the command goes on after orphanWait.
const orphanWait = 200 * time.Millisecond

// Resume continues the command. If we are in the foreground and the command is to have
// the terminal, Resume gives it the terminal first.
func (j *Job) Resume() {
	if j.tty.handOver() {
		j.tty.give(j.pid)
	}
	j.Signal(syscall.SIGCONT)
}
