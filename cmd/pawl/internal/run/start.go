// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

// lookPath returns the executable file of a command.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if _, set := os.LookupEnv("PATH"); !set && errors.Is(err, exec.ErrNotFound) && !strings.Contains(name, "/") {
		for _, dir := range []string{"/bin", "/usr/bin"} { // the default of execvp(3)
			if there, ok := exec.LookPath(dir + "/" + name); ok == nil {
				return there, nil
			}
		}
	}
	shown := display.Shorten(strings.ToValidUTF8(name, "\uFFFD"), 200) // keep the line short, so that users see the advice at its end
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return "", exit.Fail(job.CannotRun, name+" is in the current directory", "type ./"+name)
	case errors.Is(err, exec.ErrNotFound) && strings.ContainsAny(name, " \t;&|<>$"):
		return "", exit.Fail(job.NotFound, shown, "for a shell command, use: sh -c "+display.Quote(name))
	case errors.Is(err, exec.ErrNotFound):
		return "", exit.Fail(job.ExecError(shown, fs.ErrNotExist))
	}
	return "", exit.Fail(job.ExecError(name, err))
}

// startHint says what to do if the system could not start a process. It compares texts, because the
// guard's errors come through a pipe as text.
func startHint(err error) string {
	is := func(n syscall.Errno) bool { return strings.HasSuffix(err.Error(), n.Error()) }
	switch {
	case is(syscall.EMFILE), is(syscall.ENFILE):
		return "too many files are open: see ulimit -n"
	case is(syscall.EAGAIN):
		return "too many processes or threads: see ulimit -u, and the limit of the container"
	case is(syscall.ENOMEM):
		return "there is too little memory: see free, and ulimit -v"
	case is(syscall.E2BIG):
		return "the environment and the arguments are too large: see env | wc -c, and getconf ARG_MAX; one variable may have 128 KiB"
	case is(syscall.ENOENT):
		return "are /dev and /proc mounted?"
	}
	return "try again"
}
