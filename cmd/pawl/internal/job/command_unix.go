// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// If this process is a guard or a stub, init does all its work and ends the
// process. Doing that here rather than in main halves the time that they need: Go
// initialises packages in the order of their import paths, as far as imports
// allow. This package imports little, so its init runs before the clients of the
// stores are initialised.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case guardArg:
		os.Exit(guardMain(os.Args[2:]))
	case stubArg:
		os.Exit(stubMain(os.Args[2:]))
	}
}

// start starts the command and reports whether it runs. If the wrapper is dead,
// start does nothing. If the wrapper dies later, run learns it from the pipe.
func (w *watch) start(path string, words []string) bool {
	for _, fd := range w.files {
		if w.private {
			syscall.CloseOnExec(fd)
		}
	}
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	program, args := path, words
	switch {
	case w.front:
		program, args = foreground(attr.Sys, w.ttou, path, words)
	case w.ttou:
		defaultTTOU()
	}
	if os.Getppid() != w.wrapper {
		return false
	}
	pid, err := syscall.ForkExec(program, args, attr)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		w.say("failed cannot start %s: %v", path, err)
		return false
	case err != nil:
		w.say("exited %d\nempty", cannotExec(words[0], err))
		return false
	}
	w.group = pid
	w.say("started %d", pid)
	for _, fd := range w.files {
		syscall.CloseOnExec(fd) // so that closeInherited does not close it
	}
	return true
}

// foreground makes the command's group the terminal's foreground group before the command
// runs. The child process does that itself, while its group is still in the background. TTOU
// would stop it, so foreground ignores TTOU. The child then runs the stub, which gives TTOU its
// default action again and executes the command. The stub is the slowest step of a start.
func foreground(sys *syscall.SysProcAttr, ttou bool, path string, words []string) (program string, args []string) {
	self, err := executable()
	if err != nil {
		return path, words
	}
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return path, words
	}
	signal.Ignore(syscall.SIGTTOU)
	sys.Foreground, sys.Ctty = true, tty
	return self, append([]string{os.Args[0], stubArg, strconv.FormatBool(ttou), path}, words...)
}

// defaultTTOU gives TTOU its default action in the next program that this process executes.
// The wrapper ignores TTOU, and exec would keep that. A handler for TTOU changes it: exec
// replaces handlers by the default action.
func defaultTTOU() { signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU) }

// stubMain executes the command in this process. Its arguments are: whether TTOU gets its
// default action, the executable file, the command's words.
func stubMain(args []string) int {
	if len(args) < 3 {
		return CannotRun
	}
	if args[0] == "true" {
		defaultTTOU()
	}
	return cannotExec(args[2], syscall.Exec(args[1], args[2:], os.Environ()))
}

// cannotExec tells the user why the command cannot be executed, and returns the exit code.
func cannotExec(name string, err error) int {
	code, text, hint := ExecError(name, err)
	fmt.Fprintf(os.Stderr, "pawl: %s: %s; %s\n", Kind(code), text, hint)
	return code
}

// ExecError returns the exit code for a command that cannot be executed, a text
// for the user, and a hint what to try.
func ExecError(name string, err error) (code int, text, hint string) {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return CannotRun, name + " is neither a program nor a script with a #! line", "name its interpreter: sh " + name
	case errors.Is(err, os.ErrNotExist):
		return NotFound, name, "check its spelling, $PATH, and the #! line if it is a script"
	case errors.Is(err, os.ErrPermission):
		return CannotRun, name + " is not executable", "try: chmod +x " + name
	}
	return CannotRun, fmt.Sprintf("%s: %v", name, err), "run it without pawl to see more"
}

// executable returns a path to this program. On Linux the path stays valid when an
// upgrade replaces the file.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return os.Executable()
}
