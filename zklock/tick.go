// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tickAssumed = "as is usual: set ?tick_time= to the tickTime of zoo.cfg if that is less"
	tickOfSome  = "as not every server has answered: set ?tick_time= to the tickTime of zoo.cfg if that is less"
)

// askTick is how long the servers have to say what their ticks are.
const askTick = time.Second

// learnTick takes the tick that the servers name, unless the caller has: the longest, if they
// differ. They tell it by the word conf, if 4lw.commands.whitelist allows it. How long sessions
// last says nothing: minSessionTimeout and maxSessionTimeout may be set to anything. A server that
// does not answer may be the leader, whose tick counts: then it is the usual one at least.
func (s *store) learnTick(ctx context.Context, given bool) {
	switch {
	case given:
		s.tickFrom = "as tick_time says"
		return
	case s.tls != nil: // where servers do not answer to words
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.timeout, askTick))
	defer cancel()
	ticks := make([]time.Duration, len(s.addrs))
	var all sync.WaitGroup
	for i, at := range s.addrs {
		all.Go(func() {
			text, _ := s.word(ctx, at, "conf")
			ticks[i] = readTick(text)
		})
	}
	all.Wait()
	most := slices.Max(ticks)
	switch {
	case most == 0: // none has answered
	case slices.Min(ticks) > 0:
		s.tick, s.tickFrom = most, "as the servers say"
	default:
		s.tick, s.tickFrom = max(most, defaultTick), tickOfSome
	}
}

// readTick returns the tick in an answer to conf; 0 if there is none.
func readTick(conf string) time.Duration {
	for line := range strings.Lines(conf) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "tickTime="); ok {
			ms, err := strconv.ParseUint(value, 10, 31)
			if err == nil {
				return time.Duration(ms) * time.Millisecond
			}
		}
	}
	return 0
}

// ticks says in words what the client takes for a tick, and why.
func (s *store) ticks() string { return fmt.Sprintf("with ticks of %v, %s", s.tick, s.tickFrom) }
