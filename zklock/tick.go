// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	tickAssumed = "the default: set ?tick_time= to the tickTime of zoo.cfg if that is less"
	tickOfSome  = "as not every server has answered: set ?tick_time= to the tickTime of zoo.cfg if that is less"
)

// askTick limits how long learnTick waits for the servers.
const askTick = time.Second

// learnTick asks the servers for their tick, unless the caller has given it, and takes the longest. They answer to the
// word conf if 4lw.commands.whitelist allows it. The lengths of sessions do not show the tick, as minSessionTimeout and
// maxSessionTimeout may have any value. A server that does not answer may be the leader, whose tick counts; then the
// tick is the usual one at least.
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
	_ = each(ctx, len(s.addrs), func(ctx context.Context, i int) error {
		text, _ := s.word(ctx, s.addrs[i], "conf")
		ticks[i] = readTick(text)
		return nil
	})
	most := slices.Max(ticks)
	switch {
	case most == 0: // none has answered
	case slices.Min(ticks) > 0:
		s.tick, s.tickFrom = most, "as the servers say"
	default:
		s.tick, s.tickFrom = max(most, defaultTick), tickOfSome
	}
}

// readTick returns the tick in an answer to conf, or 0 if it has none.
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

// ticks says how long the client takes a tick to be, and why.
func (s *store) ticks() string { return fmt.Sprintf("with ticks of %v, %s", s.tick, s.tickFrom) }
