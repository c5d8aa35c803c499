// SPDX-License-Identifier: Apache-2.0

//go:build unix

package acquire

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

// ending are the signals that end a process that does not care for them. While
// we wait they end us; then they are the command's.
var ending = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// others are forwarded too once there is a command.
var others = []os.Signal{syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP}

// listen makes signals go to ch. Those that we were started to ignore, as by
// nohup(1), stay ignored, also by the command.
func listen(ch chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !job.Ignored(s.(syscall.Signal)) {
			signal.Notify(ch, s)
		}
	}
}

// unlisten gives others back their effect on us, while there is no command.
func unlisten() { signal.Reset(others...) }

// keepWriting makes a write to a closed pipe on stderr an error. Otherwise the
// signal would end us, and leave the command without its wrapper. It catches the
// signal: an ignored one would be ignored in the command too.
func keepWriting() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// IsContinue reports whether a signal lets a process go on that was stopped.
func IsContinue(s os.Signal) bool { return s == syscall.SIGCONT }

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
