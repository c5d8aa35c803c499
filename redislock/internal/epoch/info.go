// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

var errEvicts = errors.New("it may throw locks away, and then two clients could hold the same one: " +
	"set maxmemory-policy to noeviction, or AllowUnguarded (?allow_unguarded=true) if that does no harm")

var errUnguarded = errors.New("after a restart of this server two clients could hold the same lock, " +
	"and redislock could not notice: set AllowUnguarded (?allow_unguarded=true) if that does no harm")

// ErrCluster is the error of Bound for a server that belongs to a cluster.
var ErrCluster = errors.New("this server belongs to a cluster")

// askServer returns the run_id of the server, or "" if it has none that can be relied on
// and Config.Unguarded accepts that.
func (s *Server) askServer(ctx context.Context, wire rueidis.CommandClient) (boot string, err error) {
	text, err := wire.Do(ctx, wire.B().Info().Section("all").Build()).ToString()
	if ret := conn.Refused(err); ret != nil && unanswered(ret.Error()) {
		if s.Unguarded {
			return "", nil
		}
		err = conn.Lacking(err, "info")
		if strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "NOPERM") {
			return "", fmt.Errorf("%w: %w", err, errUnguarded) // err names the command, and Explain adds a hint
		}
		return "", storekit.OfKind(storekit.ErrConfig, fmt.Errorf("the server does not answer INFO as Redis does (%w): %w", err, errUnguarded))
	}
	if err != nil {
		return "", err
	}
	info := ParseInfo(text)
	clustered := info["cluster_enabled"] == "1" // Valkey has no redis_mode
	switch {
	case clustered && s.Slots == nil:
		return "", ErrCluster
	case info["role"] == "slave":
		return "", conn.ErrReplica
	case s.Unguarded:
		return runOf(info), nil
	}
	// A quarantine makes up for a restart, but not for evictions: once they begin, they go
	// on. Without maxmemory the server evicts nothing.
	if policy := info["maxmemory_policy"]; policy != "noeviction" && policy != "" && info["maxmemory"] != "0" {
		return "", fmt.Errorf("the server evicts keys when it is short of memory, by maxmemory-policy %s: %w", policy, errEvicts)
	}
	if boot = runOf(info); boot == "" {
		return "", fmt.Errorf("the server says that it is version %q, run %q, up for %q s: %w",
			info["redis_version"], info["run_id"], info["uptime_in_seconds"], errUnguarded)
	}
	return boot, nil
}

// runOf returns the run_id if it can be relied on, else "". Before Redis 7 replicas and append-only files kept the
// loaded scripts, so a run could have the scripts of the run before.
func runOf(info map[string]string) string {
	major, _, _ := strings.Cut(info["redis_version"], ".")
	if version, _ := strconv.Atoi(major); version < 7 || info["uptime_in_seconds"] == "" {
		return ""
	}
	return info["run_id"]
}

// unanswered reports whether text is a refusal of INFO itself. It is false for a refusal of
// the commands that begin a connection, and for a refusal because of the server's state.
func unanswered(text string) bool {
	if name, unknown := strings.CutPrefix(text, "unknown command "); unknown {
		return strings.HasPrefix(strings.ToUpper(strings.Trim(name, "'`\"")), "INFO")
	}
	return strings.HasPrefix(text, "NOPERM") || !conn.Known(text)
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

// TellClosed reports that the run of b is in quarantine, for left. Many slots and Bindings call
// it; it reports each run once, and again if the last report is more than a minute old.
func (s *Server) TellClosed(b *Binding, left time.Duration) {
	if left <= 0 || s.News == nil {
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
		s.report(driver.News{Closed: left})
	}
}
