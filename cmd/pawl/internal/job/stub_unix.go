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

// stubMain tells the guard its process group and becomes the command.
// Arguments: the pipe's number, the wrapper's process id, whether to give
// TTOU its default action back, the executable file, the command's words.
func stubMain(args []string) int {
	if len(args) < 5 {
		return CannotRun
	}
	pipe, err1 := strconv.Atoi(args[0])
	parent, err2 := strconv.Atoi(args[1])
	if err1 != nil || err2 != nil {
		return CannotRun
	}
	syscall.CloseOnExec(pipe)
	message := fmt.Appendf(nil, "group %d\n", os.Getpid())
	if _, err := syscall.Write(pipe, message); err != nil {
		fmt.Fprintln(os.Stderr, "pawl: cannot run: the guard process has been killed; try again")
		return CannotRun
	}
	if os.Getppid() != parent {
		return CannotRun // the wrapper is dead: nobody wants the command
	}
	if args[2] == "true" {
		// exec gives a signal that has a handler its default action back.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	}
	err := syscall.Exec(args[3], args[4:], os.Environ())
	code, text, hint := ExecError(args[4], err)
	fmt.Fprintf(os.Stderr, "pawl: %s: %s; %s\n", Kind(code), text, hint)
	return code
}

// ExecError returns the exit code for a command that cannot be executed, what
// to tell the user of it, and what to try.
func ExecError(name string, err error) (code int, text, hint string) {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return CannotRun, name + " is neither a program nor has it a #! line", "name its interpreter: sh " + name
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
