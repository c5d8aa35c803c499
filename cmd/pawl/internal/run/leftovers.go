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

// Values of --leftovers: what to do with processes that the command leaves running.
const (
	waitLeftovers    = "wait"    // keep the lock until they have ended
	killLeftovers    = "kill"    // end them, and then release the lock
	releaseLeftovers = "release" // release the lock; they go on without it
)

// leave handles the processes that the command left running. With --leftovers wait it only sets s.warn:
// usually no process is left, and Empty will be closed in a moment.
func (s *supervisor) leave() {
	s.job.Retire() // from now on Ctrl-C has to reach pawl
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

// quick is how long the last processes may take to end by themselves before --leftovers kill ends them.
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
		s.warn = time.After(waiting.Patience) // they have just ended, or fork and exit too fast to be listed
		return
	}
	if more := len(left) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	s.Tell(e)
	s.Warn(fmt.Sprintf("the command has ended, but %q stays locked until the processes that it left running end: pid %s; see --leftovers in pawl %s --help",
		s.Name, strings.Join(names, ", "), s.Verb))
}
