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

// server is what INFO says that matters here.
type server struct {
	boot    string        // run_id; empty if there is none that can be relied on
	age     time.Duration // at most the time since it started
	replica bool          // it may have been one
	erased  bool          // data may have been thrown away since it started
}

var errUnguarded = errors.New("after a restart of this server two clients could hold the same lock, " +
	"and redislock could not notice: set AllowUnguarded (?allow_unguarded=true) if that does no harm")

// askServer asks which run of which server this is.
func (s *store) askServer(ctx context.Context, conn rueidis.CommandClient) (server, error) {
	text, err := conn.Do(ctx, conn.B().Info().Section("all").Build()).ToString()
	if ret, ok := rueidis.IsRedisErr(err); ok && unanswered(ret.Error()) {
		if s.unguarded {
			return server{}, nil
		}
		return server{}, fmt.Errorf("%w: %w", lacking(err, "info"), errUnguarded)
	}
	if err != nil {
		return server{}, err
	}
	info := parseInfo(text)
	if info["redis_mode"] == "cluster" {
		return server{}, fmt.Errorf("this server belongs to a cluster, which redislock does not support yet: %w", errors.ErrUnsupported)
	}
	if info["role"] == "slave" {
		return server{}, errors.New("READONLY")
	}
	// Before Redis 7 a replica, and a restart with an AOF, took the script cache
	// over, so that the scripts of one run were found in the next.
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	uptime, err := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if info["run_id"] == "" || version < 7 || err != nil {
		if s.unguarded {
			return server{}, nil
		}
		return server{}, fmt.Errorf("the server says that it is version %q, run %q, up for %q s: %w",
			info["redis_version"], info["run_id"], info["uptime_in_seconds"], errUnguarded)
	}
	return newServer(info, uptime), nil
}

// unanswered reports whether INFO itself was refused.
func unanswered(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "unknown command")
}

// newServer draws the conclusions. Both ends of the uptime are rounded down, so
// it can be one second too long.
func newServer(info map[string]string, uptime int64) server {
	v := server{boot: info["run_id"], age: time.Duration(max(0, uptime-1)) * time.Second}
	v.replica = strings.Trim(info["master_replid2"], "0") != ""
	v.erased = info["evicted_keys"] != "0"
	for _, command := range []string{"flushall", "flushdb", "swapdb", "config|resetstat"} {
		if _, called := info["cmdstat_"+command]; called {
			v.erased = true
		}
	}
	return v
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

// enter begins or joins the epoch of this run of the server. Until the longest
// TTL in use has passed since the server may have forgotten a lease, it grants
// nothing; renewals go on.
//
// A run that has been a replica may lack what its master granted up to the end,
// so it counts from now. Any other run can have forgotten nothing that was
// granted since it began, if nothing was erased meanwhile.
func (s *store) enter(ctx context.Context, conn rueidis.CommandClient, b *binding, v server) error {
	missing, other := v.age, v.age
	if v.replica {
		missing, other = 0, 0
	}
	if v.erased {
		missing = 0
	}
	left, _, err := s.epoch(ctx, conn, b, missing, other, false)
	if err != nil {
		return err
	}
	if left > 0 && s.log != nil {
		s.log.Warn("redislock: the server has restarted or lost its data: no new leases until those that it may have forgotten have ended",
			"left", left.Round(time.Millisecond), "server", s.addr)
	}
	return nil
}

func (s *store) epoch(ctx context.Context, conn rueidis.CommandClient, b *binding, missing, other time.Duration, bless bool) (left, longest time.Duration, err error) {
	reply, err := conn.Do(ctx, b.call(conn, epochScript, []string{s.epochKey()}, []string{
		millis(s.maxTTL), strconv.FormatInt(missing.Microseconds(), 10), strconv.FormatInt(other.Microseconds(), 10), bit(bless),
	})).AsIntSlice()
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 2 {
		return 0, 0, fmt.Errorf("the server's answer has %d parts; want 2", len(reply))
	}
	return time.Duration(reply[0]) * time.Millisecond, time.Duration(reply[1]) * time.Millisecond, nil
}

func (s *store) epochKey() string { return s.prefix + "epoch" }

// bless ends the quarantine and sets the longest TTL in use to this client's.
func (s *store) bless(ctx context.Context) error {
	b, err := s.bound(ctx, nil)
	if err != nil || b.boot == "" {
		return err
	}
	_, _, err = s.epoch(ctx, s.client, b, 0, 0, true)
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
