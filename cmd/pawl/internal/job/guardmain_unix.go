// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// watch is what the guard knows.
type watch struct {
	targets
	grace    time.Duration
	deadline int64 // 0: none
	orphaned int64 // when the pipe closed, 0: it has not
	termed   bool  // TERM has been sent, by us or by the wrapper
	killed   bool
	done     bool
}

// guardMain is the guard process. Arguments: the grace in nanoseconds, and the
// tag of the command's processes.
func guardMain(args []string) int {
	if len(args) != 2 {
		return 2
	}
	grace, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return 2
	}
	// Whoever ends "all of pawl" politely ends the wrapper, which ends us.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	w := &watch{grace: time.Duration(grace), targets: targets{tag: args[1]}}
	w.run(readLines(os.Stdin))
	return 0
}

func readLines(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

func (w *watch) run(lines <-chan string) {
	for !w.done {
		select {
		case line, ok := <-lines:
			if !ok {
				lines, w.orphaned = nil, now()
				break
			}
			w.hear(line)
		case <-w.pause():
		}
		w.act()
	}
}

func (w *watch) hear(line string) {
	var n int64
	switch {
	case line == "done":
		w.done = true
	case line == "stopping":
		w.termed = true
	default:
		if _, err := fmt.Sscanf(line, "group %d", &n); err == nil {
			w.group = int(n)
		} else if _, err := fmt.Sscanf(line, "deadline %d", &n); err == nil {
			w.deadline = n
		}
	}
}

// plan returns when TERM and KILL are due, 0 for never. While the wrapper
// lives it comes first, and the guard's TERM only if it sleeps.
func (w *watch) plan() (term, kill int64) {
	if w.deadline != 0 {
		kill = w.deadline - int64(Margin(w.grace))
		term = w.deadline - int64(w.grace) + int64(Margin(w.grace))
	}
	if w.orphaned != 0 {
		term = w.orphaned
		if end := w.orphaned + int64(w.grace); kill == 0 || end < kill {
			kill = end
		}
	}
	return term, kill
}

func (w *watch) act() {
	if w.done || w.killed {
		w.done = w.done || w.orphaned != 0
		return
	}
	term, kill := w.plan()
	t := now()
	if term != 0 && t >= term && !w.termed {
		w.terminate()
		w.termed = true
	}
	if kill != 0 && t >= kill {
		w.kill(lastWait)
		w.killed = true
	}
	if w.orphaned != 0 && (w.killed || w.empty()) {
		w.done = true
	}
}

// pause returns a channel for the time of the next action. It is never far
// away while there is one, because timers stand still while the machine
// sleeps and deadlines do not.
func (w *watch) pause() <-chan time.Time {
	if w.orphaned != 0 {
		return time.After(pollInterval)
	}
	term, kill := w.plan()
	next := kill
	if !w.termed {
		next = term
	}
	if next == 0 || w.killed {
		return nil
	}
	return time.After(min(max(time.Duration(next-now()), 0), time.Second) + time.Millisecond)
}
