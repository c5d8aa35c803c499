// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

var errUnguarded = errors.New("after a restart of this server two clients could hold the same lock, " +
	"and redislock could not notice: set AllowUnguarded (?allow_unguarded=true) if that does no harm")

// askServer returns the run_id of this run of the server, or "" if there is none
// that can be relied on.
func (s *store) askServer(ctx context.Context, conn rueidis.CommandClient) (boot string, err error) {
	text, err := conn.Do(ctx, conn.B().Info().Section("all").Build()).ToString()
	if ret, ok := rueidis.IsRedisErr(err); ok && unanswered(ret.Error()) {
		if s.unguarded {
			return "", nil
		}
		return "", fmt.Errorf("%w: %w", lacking(err, "info"), errUnguarded)
	}
	if err != nil {
		return "", err
	}
	info := parseInfo(text)
	if info["cluster_enabled"] == "1" { // Valkey has no redis_mode
		return "", fmt.Errorf("this server belongs to a cluster, which redislock does not support yet: %w", errors.ErrUnsupported)
	}
	if info["role"] == "slave" {
		return "", errors.New("READONLY")
	}
	// Before Redis 7 a replica, and a restart with an AOF, took the script cache
	// over, so that the scripts of one run were found in the next.
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	if info["run_id"] != "" && version >= 7 && info["uptime_in_seconds"] != "" {
		return info["run_id"], nil
	}
	if s.unguarded {
		return "", nil
	}
	return "", fmt.Errorf("the server says that it is version %q, run %q, up for %q s: %w",
		info["redis_version"], info["run_id"], info["uptime_in_seconds"], errUnguarded)
}

// unanswered reports whether INFO itself was refused.
func unanswered(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "unknown command")
}

func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	return info
}

// tellClosed says that nothing is granted for a while.
func (s *store) tellClosed(left time.Duration) {
	if left > 0 && s.log != nil {
		s.log.Warn("redislock: the server has restarted or lost its data: no new leases until those that it may have forgotten have ended",
			"left", left.Round(time.Millisecond), "server", s.addr)
	}
}

// epoch begins or joins the epoch of this run of the server, and returns for how
// long nothing is granted: until the longest TTL in use has passed since the
// server may have forgotten a lease. Renewals go on.
func (s *store) epoch(ctx context.Context, conn rueidis.CommandClient, b *binding, bless bool) (time.Duration, error) {
	reply, err := conn.Do(ctx, b.call(conn, epochScript, []string{s.epochKey()}, []string{millis(s.maxTTL), bit(bless)})).AsIntSlice()
	if err != nil {
		return 0, err
	}
	if len(reply) != 2 {
		return 0, fmt.Errorf("the server's answer has %d parts; want 2", len(reply))
	}
	return time.Duration(reply[0]) * time.Millisecond, nil
}

func (s *store) epochKey() string { return s.prefix + "epoch" }

// bless ends the quarantine and sets the longest TTL in use to this client's.
func (s *store) bless(ctx context.Context) error {
	b, err := s.bound(ctx, nil)
	if err != nil || b.boot == "" {
		return err
	}
	_, err = s.epoch(ctx, s.client, b, true)
	return err
}

func millis(d time.Duration) string { return strconv.FormatInt(int64(ceil(d)), 10) }

// ceil returns d in milliseconds, rounded up, so that the server never counts
// less than the holder does.
func ceil(d time.Duration) time.Duration { return (d + time.Millisecond - 1) / time.Millisecond }

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
