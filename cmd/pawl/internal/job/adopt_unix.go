// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"errors"
	"syscall"
	"time"
)

// adopt waits for a command that is our own child, since its guard has gone, and for what it leaves
// behind.
func (j *Job) adopt() {
	over, pid := make(chan struct{}), j.PID()
	go func() {
		j.waitCommand(pid)
		close(over)
	}()
	for tick := time.Tick(5 * pollInterval); !j.isClosed(); {
		select {
		case <-over:
			if j.reap(0) {
				closeOnce(j.empty)
				return
			}
			<-tick
		case <-tick:
			j.reap(pid) // it may leave many before it ends
		}
	}
}

// waitCommand waits for the command and tells of its stops and its end.
func (j *Job) waitCommand(pid int) {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // the guard has reaped it, and told that, or was killed before it could
			j.end(Status{}, errors.New("the guard process was killed just when the command ended: nobody knows its exit code"))
		case ws.Stopped():
			j.stop(ws.StopSignal())
			continue
		default:
			j.end(statusOf(ws), nil)
		}
		return
	}
}

func statusOf(ws syscall.WaitStatus) Status {
	if ws.Signaled() {
		return Status{Signal: ws.Signal()}
	}
	return Status{Code: ws.ExitStatus()}
}
