// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Windows has no such process groups and signals. There End kills the command alone, at
// once. There is no guard: if the wrapper is killed, the command goes on.

// Job is a command that has been started.
type Job struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	status Status
}

// Start runs the command.
func Start(spec *Spec) (*Job, error) {
	cmd := &exec.Cmd{Path: spec.Path, Args: spec.Args, Env: spec.Env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", spec.Path, err)
	}
	j := &Job{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		j.status.Code = cmd.ProcessState.ExitCode()
		close(j.ended)
	}()
	return j, nil
}

// PID returns the command's process id.
func (j *Job) PID() int { return j.cmd.Process.Pid }

// Stops returns nil: nothing stops a command.
func (j *Job) Stops() <-chan syscall.Signal { return nil }

// Ended is closed when the command has ended.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Empty is closed when the command has ended: the processes that it started are not known.
func (j *Job) Empty() <-chan struct{} { return j.ended }

// Status returns how the command has ended.
func (j *Job) Status() (Status, error) { return j.status, nil }

// SignalAll does nothing.
func (j *Job) SignalAll(syscall.Signal) {}

// Left returns nothing.
func (j *Job) Left() map[int]string { return nil }

// Retire does nothing.
func (j *Job) Retire() {}

// Signal does nothing: the console sends Ctrl-C to the command itself.
func (j *Job) Signal(syscall.Signal) {}

// Suspend does nothing.
func (j *Job) Suspend(syscall.Signal) bool { return false }

// StopSelf does nothing: a console cannot stop processes.
func StopSelf() {}

// Resume does nothing.
func (j *Job) Resume() {}

// Deadline does nothing.
func (j *Job) Deadline(time.Time) {}

// End kills the command and reports whether it has ended.
func (j *Job) End(time.Time, <-chan os.Signal) bool {
	_ = j.cmd.Process.Kill()
	select {
	case <-j.ended:
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}

// Gone waits until the command has ended, or something arrives on hurry.
func (j *Job) Gone(hurry <-chan os.Signal) bool {
	select {
	case <-j.ended:
		return true
	case <-hurry:
		return false
	}
}

// Close does nothing.
func (j *Job) Close() bool { return false }

// Interrupt does nothing: the console sends Ctrl-C to all its processes.
func Interrupt(bool) {}

// ExecError returns the exit code for a command that cannot be executed, a text
// for the user, and a hint what to try.
func ExecError(name string, err error) (code int, text, hint string) {
	if errors.Is(err, os.ErrNotExist) {
		return NotFound, name, "check its spelling, and %PATH%"
	}
	return CannotRun, fmt.Sprintf("%s: %v", name, err), "run it without pawl to see more"
}
