// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
)

// What to do with processes that the command leaves running.
const (
	waitLeftovers    = "wait"    // keep the lock until they have ended
	killLeftovers    = "kill"    // end them, and give the lock back then
	releaseLeftovers = "release" // they go on without the lock
)

// leave handles what the command has left running. It does not wait: mostly nothing is left, and Empty is
// closed in a moment.
func (s *supervisor) leave() {
	s.job.Retire() // Ctrl-C is for us now
	if s.args.leftovers == killLeftovers {
		select {
		case <-s.job.Empty():
			return
		case <-time.After(quick):
		}
		if s.job.End(s.killTime(), s.Signals) {
			return
		}
	}
	s.warn = time.After(waiting.Patience)
}

// quick is how long a command's last processes may take to end by themselves before they are ended.
const quick = 20 * time.Millisecond

// tellLeftovers names the processes that keep the lock.
func (s *supervisor) tellLeftovers() {
	left := s.job.Left()
	e := acquire.About("leftovers", s.lease, nil)
	var names []string
	for _, pid := range slices.Sorted(maps.Keys(left)) {
		e.Left = append(e.Left, acquire.Left{PID: pid, Program: left[pid]})
		if len(names) < 5 {
			names = append(names, fmt.Sprintf("%d (%s)", pid, left[pid]))
		}
	}
	if len(left) == 0 {
		s.warn = time.After(waiting.Patience) // they have just ended, or fork and end while we look
		return
	}
	if more := len(left) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	s.Tell(e)
	s.Warn(fmt.Sprintf("the command has ended, but %q stays locked until the processes that it left running end: pid %s; see --leftovers in pawl %s --help",
		s.Name, strings.Join(names, ", "), s.Verb))
}
