// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	tickAssumed = "the default: set ?tick_time= to the tickTime of zoo.cfg if that is less"
	tickOfSome  = "as not every server has answered: set ?tick_time= to the tickTime of zoo.cfg if that is less"
)

// askTick limits how long learnTick waits for the servers.
const askTick = time.Second

// learnTick asks the servers for their tick, unless the caller has given it, and takes the longest. The servers
// answer the command conf if 4lw.commands.whitelist allows it. The timeouts of sessions do not show the tick,
// because minSessionTimeout and maxSessionTimeout may have any value. The tick of the leader counts, and a server
// that does not answer may be the leader. Then learnTick takes the usual tick at least.
func (s *store) learnTick(ctx context.Context, given bool) {
	switch {
	case given:
		s.tickFrom = "as tick_time says"
		return
	case s.tls: // the servers do not answer such commands over TLS
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
	case most == 0: // no server has told its tick
	case slices.Min(ticks) > 0:
		s.tick, s.tickFrom = most, "as the servers say"
	default:
		s.tick, s.tickFrom = max(most, defaultTick), tickOfSome
	}
}

// readTick returns the tick in an answer to conf, or 0 if the answer has none.
func readTick(conf string) time.Duration {
	_, value, _ := strings.Cut(conf, "tickTime=")
	var ms uint32
	_, _ = fmt.Sscan(value, &ms) // on an error ms is 0
	return time.Duration(ms) * time.Millisecond
}

// ticks returns the length of a tick and where it comes from, for error texts.
func (s *store) ticks() string { return fmt.Sprintf("with ticks of %v, %s", s.tick, s.tickFrom) }
