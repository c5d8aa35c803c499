// SPDX-License-Identifier: Apache-2.0

//go:build unix

package acquire

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

// ending are the signals that end a process by default. While pawl waits for the lock,
// they end pawl. While a command runs, pawl forwards them to the command.
var ending = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// others are further signals that pawl forwards while a command runs.
var others = []os.Signal{syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP}

// listen directs signals to ch. A signal that our caller has set to be ignored, as
// nohup(1) does, stays ignored, and the command ignores it too.
func listen(ch chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !job.Ignored(s.(syscall.Signal)) {
			signal.Notify(ch, s)
		}
	}
}

// unlisten gives the signals in others their default effect again.
func unlisten() { signal.Reset(others...) }

// keepWriting makes a write to a closed pipe return an error. Otherwise SIGPIPE would
// end pawl, and the command would run without its wrapper. It catches SIGPIPE instead of
// ignoring it, because the command would inherit an ignored signal.
func keepWriting() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// IsContinue reports whether s continues a stopped process.
func IsContinue(s os.Signal) bool { return s == syscall.SIGCONT }

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
