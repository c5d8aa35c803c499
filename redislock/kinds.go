// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// The kinds of lease as they are in the store; the kind of a slot is the number of
// slots.
const (
	exclusive = "exclusive"
	shared    = "shared"
)

func kindOf(req *driver.Request) string {
	switch {
	case req.Shared:
		return shared
	case req.Slots > 0:
		return strconv.Itoa(req.Slots)
	}
	return exclusive
}

func slotsOf(kind string) int {
	n, _ := strconv.Atoi(kind)
	return n
}

// attemptText is an attempt as it is in the queue, and among the leases that hold a
// lock together.
func attemptText(lease, client, kind, record string) string {
	return lease + " " + client + " " + kind + " " + record
}

// parseAttempt reads what attemptText has made.
func parseAttempt(s string) (lease, kind string, r storekit.Record) {
	f := strings.SplitN(s, " ", 4)
	if len(f) < 4 {
		return s, "", storekit.Record{}
	}
	return f[0], f[2], storekit.ReadRecord(f[3])
}

// A lock that several hold together is a sorted set, with two members for each lease: the
// attempt, with the end of the lease in microseconds since 1970, and the same
// behind tokenMark, with the token as a negative number.
const tokenMark = "@"

// readSharers reads the members of such a lock, in the order of the tokens. Leases that
// have ended by the time at are left out; with the zero time none is left out.
func readSharers(members []rueidis.ZScore, at time.Time) (holders []driver.Held) {
	tokens := make(map[string]uint64)
	for _, m := range members {
		if attempt, ok := strings.CutPrefix(m.Member, tokenMark); ok {
			tokens[attempt] = uint64(-m.Score)
		}
	}
	for _, m := range members {
		token := tokens[m.Member]
		ends := time.UnixMicro(int64(m.Score))
		if token == 0 || !ends.After(at) {
			continue
		}
		lease, kind, r := parseAttempt(m.Member)
		holders = append(holders, driver.Held{
			Holder: r.Holder, Lease: lease, Token: driver.Token(token), Why: r.Why,
			Acquired: time.UnixMicro(int64(token)), // unless the clock was set back
			Expires:  ends, Shared: kind == shared, Slots: slotsOf(kind),
		})
	}
	slices.SortStableFunc(holders, func(a, b driver.Held) int { return cmp.Compare(a.Token, b.Token) })
	return holders
}

// parseSharers is readSharers for what a script has answered: members and scores in
// turn. The script has left out leases that have ended.
func parseSharers(reply rueidis.RedisMessage) []driver.Held {
	flat, err := reply.AsStrSlice()
	if err != nil {
		return nil
	}
	var members []rueidis.ZScore
	for pair := range slices.Chunk(flat, 2) {
		if len(pair) == 2 {
			score, _ := strconv.ParseFloat(pair[1], 64)
			members = append(members, rueidis.ZScore{Member: pair[0], Score: score})
		}
	}
	return readSharers(members, time.Time{})
}

// attempt returns the text by which the store knows the grant among others, or "" if it
// is not known here.
func (g *grant) attempt() string {
	if g.record == "" {
		return ""
	}
	return attemptText(g.lease, g.s.id, g.kindNow(), g.record)
}

func (g *grant) kindNow() string {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.kind
}

// shares is attempt if others may hold the lock too, or else "".
func (g *grant) shares() string {
	if g.kindNow() == exclusive {
		return ""
	}
	return g.attempt()
}

// Downgrade implements driver.Downgrader. From the first call on the store may have
// the lease in either form, and every script finds it in both.
func (g *grant) Downgrade(ctx context.Context) error {
	s := g.s
	if err := g.over(); err != nil {
		return err
	}
	s.mu.Lock()
	if slotsOf(g.kind) > 0 {
		s.mu.Unlock()
		return errors.New("redislock: a slot cannot become a shared lease")
	}
	g.kind = shared
	s.mu.Unlock()
	by := s.layout.Beside(g.key)
	reply, _, fail := s.server.Run(ctx, downgradeScript,
		[]string{g.key, s.server.FloorKey(g.key), by + queueSuffix, s.server.EpochKey(g.key), by + brokenSuffix},
		[]string{g.attempt(), claimMillis, s.server.ChannelFor(g.key)})
	if fail != nil {
		return fail.Err
	}
	if epoch.Code(reply) == 1 {
		return nil
	}
	return g.gone(secondText(reply))
}

func secondText(reply []rueidis.RedisMessage) string {
	if len(reply) < 2 {
		return ""
	}
	s, _ := reply[1].ToString()
	return s
}
