// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
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

// shares returns the text by which the store knows the grant among others, or "" if it has
// the lock for itself, or if that text is not known here.
func (g *grant) shares() string {
	if g.kind == exclusive || g.record == "" {
		return ""
	}
	return attemptText(g.lease, g.s.id, g.kind, g.record)
}

// Downgrade implements driver.Downgrader.
func (g *grant) Downgrade(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := g.s
	if err := g.over(); err != nil {
		return nil, err
	}
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	reply, since, by, fail := g.lower(ctx, a)
	if fail != nil {
		a.doubt = fail.Maybe
		return a.undo(ctx, fail)
	}
	switch code := epoch.Code(reply); {
	case code == ended:
		return nil, errEnded
	case code == closedNow && len(reply) == 2:
		ms, _ := reply[1].AsInt64()
		return nil, closedFor(time.Duration(ms) * time.Millisecond)
	case code != 1 || len(reply) != 3:
		return nil, g.gone(s.broken(ctx, g.key, g.lease))
	}
	token, err := reply[1].AsUint64()
	if err != nil {
		a.doubt = true
		return a.undo(ctx, &conn.Failure{Err: fmt.Errorf("%w: token: %w", driver.ErrUncertain, err), Maybe: true})
	}
	s.mu.Lock()
	g.ended = true
	g.loss.Hush()
	delete(s.grants, g.lease)
	s.mu.Unlock()
	shared := a.granted(token, since)
	s.saw(by, since, reply)
	return shared, nil
}

// lower asks for a in place of g.
func (g *grant) lower(ctx context.Context, a *attempt) (reply []rueidis.RedisMessage, since driver.Instant, by epoch.Source, fail *conn.Failure) {
	s := g.s
	return s.server.RunReplicated(ctx, downgradeScript, append(a.keys[:], s.keysOf(g.key, g.lease)[2]),
		[]string{s.id, a.kind, a.record, epoch.Millis(a.req.TTL), claimMillis, s.server.ChannelFor(a.key), a.req.Lease, g.lease, epoch.Bit(g.doubt)})
}
