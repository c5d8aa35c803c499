// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

var errEvicts = errors.New("it may throw locks away, and then two clients could hold the same one: " +
	"set maxmemory-policy to noeviction, or AllowUnguarded (?allow_unguarded=true) if that does no harm")

var errUnguarded = errors.New("after a restart of this server two clients could hold the same lock, " +
	"and redislock could not notice: set AllowUnguarded (?allow_unguarded=true) if that does no harm")

// ErrCluster is Bind's error for a server that belongs to a cluster.
var ErrCluster = errors.New("this server belongs to a cluster")

// askServer returns the run_id of this run of the server, or "" if there is none
// that can be relied on.
func (s *Server) askServer(ctx context.Context, conn rueidis.CommandClient) (boot string, err error) {
	text, err := conn.Do(ctx, conn.B().Info().Section("all").Build()).ToString()
	if ret, ok := rueidis.IsRedisErr(err); ok && unanswered(ret.Error()) {
		if s.Unguarded {
			return "", nil
		}
		return "", fmt.Errorf("%w: %w", Lacking(err, "info"), errUnguarded)
	}
	if err != nil {
		return "", err
	}
	info := ParseInfo(text)
	clustered := info["cluster_enabled"] == "1" // Valkey has no redis_mode
	if clustered && s.cluster == nil {
		return "", ErrCluster
	}
	if info["role"] == "slave" {
		return "", errors.New("READONLY")
	}
	// Eviction is not noticed in time to make up for it, as a restart is: where it
	// has begun it goes on. Without maxmemory there is none.
	if policy := info["maxmemory_policy"]; policy != "noeviction" && policy != "" && info["maxmemory"] != "0" && !s.Unguarded {
		return "", fmt.Errorf("the server evicts keys when it is short of memory, by maxmemory-policy %s: %w", policy, errEvicts)
	}
	// Before Redis 7 a replica, and a restart with an AOF, took the script cache
	// over, so that the scripts of one run were found in the next.
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	if info["run_id"] != "" && version >= 7 && info["uptime_in_seconds"] != "" {
		return info["run_id"], nil
	}
	if s.Unguarded {
		return "", nil
	}
	return "", fmt.Errorf("the server says that it is version %q, run %q, up for %q s: %w",
		info["redis_version"], info["run_id"], info["uptime_in_seconds"], errUnguarded)
}

// unanswered reports whether INFO itself was refused.
func unanswered(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "unknown command")
}

// ParseInfo reads an answer to INFO.
func ParseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	return info
}

// tellClosed says that nothing is granted for a while by the run that b is for, but
// not for each slot.
func (s *Server) tellClosed(b *binding, left time.Duration) {
	if left <= 0 || s.Closed == nil {
		return
	}
	s.mu.Lock()
	now := driver.Now()
	news := now.Sub(b.toldClosed) > time.Minute
	if news {
		b.toldClosed = now
	}
	s.mu.Unlock()
	if news {
		s.Closed(s.Addr, left)
	}
}

// epoch begins or joins the epoch of this run of the server, and returns for how
// long nothing is granted: until the longest TTL in use has passed since the
// server may have forgotten a lease. Renewals go on.
//
// away is when this participant heard last from another run than this, 0 if it
// has heard of no other.
func (s *Server) epoch(ctx context.Context, conn rueidis.CommandClient, b *binding, bless bool, away driver.Instant) (time.Duration, error) {
	ago := ""
	if away != 0 {
		ago = Millis(max(0, driver.Now().Sub(away)))
	}
	closed, _, err := epochReply(conn.Do(ctx, b.call(conn, s.epochScript(), []string{s.EpochKey("")}, []string{Millis(s.MaxTTL), Bit(bless), ago})))
	return closed, err
}

// What a call of the script for the epoch has found.
const (
	joined  = iota // an epoch of this run
	foreign        // one of another run
	missing        // none
)

// epochReply reads what that has returned: for how long nothing is granted, and what
// it has found.
func epochReply(r rueidis.RedisResult) (closed time.Duration, found int64, err error) {
	reply, err := r.AsIntSlice()
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 3 {
		return 0, 0, fmt.Errorf("the server's answer has %d parts; want 3", len(reply))
	}
	return time.Duration(reply[0]) * time.Millisecond, reply[2], nil
}

// EpochKey is the key of the record of the epoch of a lock's key.
func (s *Server) EpochKey(string) string { return s.epochKey }

// ChannelFor begins the channels of messages about a lock's key.
func (s *Server) ChannelFor(string) string { return s.Channel }

// Bless ends the quarantine and sets the longest TTL in use to MaxTTL.
func (s *Server) Bless(ctx context.Context) error {
	b, err := s.bound(ctx, nil)
	if err == nil && b.boot != "" {
		_, err = s.epoch(ctx, s.client, b, true, 0)
	}
	if err != nil {
		return NotBound(ctx, err).Err
	}
	return nil
}

// Millis writes d in milliseconds, rounded up.
func Millis(d time.Duration) string { return strconv.FormatInt(Ceil(d), 10) }

// Ceil returns d in milliseconds, rounded up, so that the server never counts
// less than the holder does.
func Ceil(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Bit writes b as a number.
func Bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
