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

// init does the work of the guard or the stub, and ends the process, if it is one
// of them. That this is not left to main saves half of their time: Go initialises
// packages in the order of their import paths, as far as imports allow, so this
// one, which imports little, comes before the clients of stores.
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

// start starts the command and reports whether it runs. If the wrapper is dead nobody
// wants it; if it dies in the next moment, the pipe tells.
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
		syscall.CloseOnExec(fd) // as shed closes what is not
	}
	return true
}

// foreground makes the command's group the terminal's foreground group before it runs. The child
// does that itself, from what is a background group at that moment, which stops it with TTOU unless that is
// ignored. The stub undoes it, which takes longer than all else that is done here.
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

// defaultTTOU gives TTOU, which the wrapper ignores, its default action in what is executed next: exec gives that
// to a signal that has a handler.
func defaultTTOU() { signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU) }

// stubMain becomes the command. Arguments: whether TTOU has its default action, the executable file, the command's words.
func stubMain(args []string) int {
	if len(args) < 3 {
		return CannotRun
	}
	if args[0] == "true" {
		defaultTTOU()
	}
	return cannotExec(args[2], syscall.Exec(args[1], args[2:], os.Environ()))
}

// cannotExec tells the user, and returns the exit code.
func cannotExec(name string, err error) int {
	code, text, hint := ExecError(name, err)
	fmt.Fprintf(os.Stderr, "pawl: %s: %s; %s\n", Kind(code), text, hint)
	return code
}

// ExecError returns the exit code for a command that cannot be executed, what
// to tell the user of it, and what to try.
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

// executable returns a path of this program that stays right when the file is
// replaced by an upgrade.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return os.Executable()
}
