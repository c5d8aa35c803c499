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

var errReplica = errors.New("READONLY")

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
		return "", errReplica
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
// not for each slot, nor for each binding to that run.
func (s *Server) tellClosed(b *binding, left time.Duration) {
	if left <= 0 || s.Closed == nil {
		return
	}
	s.mu.Lock()
	now := driver.Now()
	news := s.told.run != b.boot || now.Sub(s.told.closed) > time.Minute
	if news {
		s.told.run, s.told.closed = b.boot, now
	}
	s.mu.Unlock()
	if news {
		s.Closed(s.Addr, left)
	}
}

// What the script for the epoch is called for.
const (
	look  = "look"  // changes nothing
	join  = "join"  // begins or joins the epoch
	bless = "bless" // begins an epoch in which there is nothing to wait for
	set   = "set"   // joins, and changes MaxTTL
)

// mode returns what a participant does when it meets a run: one that has been
// granted nothing, and has not asked for it, leaves everything as it is.
func (s *Server) mode() string {
	if s.writes.Load() {
		return join
	}
	return look
}

// epoch looks at, begins or joins the epoch of this run of the server, and returns for how
// long nothing is granted: until the longest TTL in use has passed since the
// server may have forgotten a lease. Renewals go on.
//
// away is when this participant heard last from another run than this, 0 if it
// has heard of no other.
func (s *Server) epoch(ctx context.Context, conn rueidis.CommandClient, b *binding, mode string, away driver.Instant) (time.Duration, error) {
	ago := ""
	if away != 0 {
		ago = Millis(max(0, driver.Now().Sub(away)))
	}
	args, err := s.joinArgs(mode, ago)
	if err != nil {
		return 0, err
	}
	r, err := epochReply(conn.Do(ctx, b.call(conn, s.epochScript(), []string{s.EpochKey("")}, args)))
	if err != nil {
		return 0, err
	}
	b.limit = r.TTL
	s.Limit.learn(r)
	if s.Group != nil {
		b.sets = r.sets
		s.Group.learn(s.Node, r.sets)
		b.set = s.Group.set()
	}
	if mode != look {
		s.arrived()
	}
	return r.closed, nil
}

// joinArgs are the arguments of the script for the epoch, with the set of nodes if there is one.
func (s *Server) joinArgs(mode, ago string) ([]string, error) {
	args := s.telling(s.Limit.args(mode, ago))
	if s.Group != nil && mode == join {
		sets, err := s.Group.tell(s.Node)
		if err != nil {
			return nil, err
		}
		args[6] = sets.String()
	}
	return args, nil
}

// telling makes the script tell all others if it makes a record where there was none.
func (s *Server) telling(args []string) []string {
	args[9], args[10] = s.newsChannel(), s.ID
	return args
}

// What a call of the script for the epoch has found.
const (
	joined  = iota // an epoch of this run
	foreign        // one of another run
	missing        // none
)

// epochState is what that has returned.
type epochState struct {
	closed time.Duration // for so long nothing is granted
	found  int64
	rest   time.Duration // for so long leases may go on that are longer than MaxTTL
	sets   Sets          // of a node of Redlock
	Term
}

func epochReply(r rueidis.RedisResult) (epochState, error) {
	reply, err := r.ToArray()
	if err != nil {
		return epochState{}, err
	}
	if len(reply) != 7 {
		return epochState{}, errParts(len(reply), 7)
	}
	var s epochState
	ms, _ := reply[0].AsInt64()
	ttl, _ := reply[1].AsInt64()
	s.closed, s.TTL = time.Duration(ms)*time.Millisecond, time.Duration(ttl)*time.Millisecond
	s.found, _ = reply[2].AsInt64()
	s.Change, _ = reply[3].AsInt64()
	s.By, _ = reply[4].ToString()
	rest, _ := reply[6].AsInt64()
	s.rest = time.Duration(rest) * time.Millisecond
	text, err := reply[5].ToString()
	s.sets = parseSets(text)
	return s, err
}

// EpochKey is the key of the record of the epoch of a lock's key.
func (s *Server) EpochKey(string) string { return s.epochKey }

// ChannelFor begins the channels of messages about a lock's key.
func (s *Server) ChannelFor(string) string { return s.Channel }

// Bless ends the quarantine. If the participant has a MaxTTL of its own, that is the store's
// from now on.
func (s *Server) Bless(ctx context.Context) error { return s.change(ctx, bless) }

// Set makes the participant's own MaxTTL the store's. A longer one is that at once. A shorter
// one too, but leases that have the longer one are waited for until they have ended.
func (s *Server) Set(ctx context.Context) error { return s.change(ctx, set) }

func (s *Server) change(ctx context.Context, mode string) error {
	b, err := s.bound(ctx, nil)
	if err == nil && b.boot != "" {
		var r epochState
		r, err = epochReply(s.Do(ctx, b.call(s.client, s.epochScript(), []string{s.EpochKey("")}, s.telling(s.Limit.changeArgs(mode)))))
		s.Limit.learn(r)
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
