// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/batch"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Source is the run of a server that has answered a request.
type Source struct {
	*Server
	Binding *Binding
}

// Run returns the run_id, or "" if the server is not guarded or there is no Binding.
func (s Source) Run() string {
	if s.Binding == nil {
		return ""
	}
	return s.Binding.boot
}

// Heard records that a script of b has returned reply. It returns an error if reply must not be trusted.
func (s *Server) Heard(b *Binding, reply []rueidis.RedisMessage) *conn.Failure {
	s.astray.useful()
	s.noteGrant(reply)
	return s.Stale(b)
}

// Forgets returns the Failure of a request that the server did not execute, because the scripts or the
// record of the epoch were missing each time.
func Forgets() *conn.Failure {
	return &conn.Failure{Err: conn.Unavailable(errForgets)}
}

// Codes that a script returns if it did nothing.
const (
	NoEpoch     = -1 // the record of the epoch is missing, or must be made anew
	BeyondLimit = -5 // the TTL is longer than MaxTTL
)

// Prepare gets ready for a script; the caller calls it before each one. After the first script
// that may grant a lease, this participant begins and joins epochs. Prepare returns an error
// if the script must not run, and again if the caller must first make b anew.
func (s *Server) Prepare(b *Binding, script int) (again bool, err error) {
	if b.boot != "" && s.Scripts[script].Leases() {
		if fail := s.Differs(b); fail != nil {
			return false, fail.Err
		}
	}
	if !s.Scripts[script].Grants || b.boot == "" {
		return false, nil
	}
	if err := s.Limit.agree(); err != nil {
		return false, err
	}
	if first := !s.writes.Swap(true); first && s.Slots == nil && (s.hasMoved() || s.Limit.doubts()) {
		return true, nil // the server does not know yet where this participant was before, or its longer MaxTTL
	}
	return b.limit == 0 || b.limit != cmp.Or(s.Limit.now().TTL, b.limit), nil
}

// Beyond returns the Failure of a script that has returned BeyondLimit.
func (s *Server) Beyond(b *Binding, reply []rueidis.RedisMessage) *conn.Failure {
	ttl := int64(0)
	if len(reply) > 1 {
		ttl, _ = reply[1].AsInt64()
	}
	t := s.Limit.now()
	t.TTL = b.limit
	return &conn.Failure{Err: t.Refuse(time.Duration(ttl) * time.Millisecond), Lasting: true}
}

// Code returns the first element of a script's reply.
func Code(reply []rueidis.RedisMessage) int64 {
	n, _ := reply[0].AsInt64()
	return n
}

// call is a script of a Binding, as a batch.Script.
type call struct {
	s      *Server
	b      *Binding
	script int
}

var _ batch.Script = (*call)(nil)

// PerRequest implements batch.Script.
func (c *call) PerRequest() int { return c.s.Scripts[c.script].PerRequest }

// Call implements batch.Script.
func (c *call) Call(ctx context.Context, n int, keys, args []string) (replies []rueidis.RedisMessage, err error) {
	do, cmd := c.s.Do, c.b.Call(c.s.Client, c.script, keys, args)
	if n > 1 {
		do = c.s.DoBatch
	}
	if replies, err = do(ctx, cmd).ToArray(); err == nil && len(replies) != n {
		err = conn.WrongLength(len(replies), n)
	}
	return replies, err
}

// Ask runs a script for one request. It may combine the request with others into one call.
func (s *Server) Ask(ctx context.Context, b *Binding, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
	if s.Scripts[script].PerRequest > 0 {
		return s.requests.Ask(ctx, &b.calls[script], keys, args)
	}
	return s.Do(ctx, b.Call(s.Client, script, keys, args)).ToArray()
}

// Reply reads the result of a script that was called for one request.
func (s *Server) Reply(script int, r rueidis.RedisResult) ([]rueidis.RedisMessage, error) {
	reply, err := r.ToArray()
	if err == nil && s.Scripts[script].PerRequest > 0 {
		if len(reply) != 1 {
			return nil, conn.WrongLength(len(reply), 1)
		}
		return reply[0].ToArray()
	}
	return reply, err
}

// Millis returns Ceil(d) in decimal digits.
func Millis(d time.Duration) string { return strconv.FormatInt(Ceil(d), 10) }

// Ceil returns d in milliseconds. It rounds up, so that a lease never ends at the server
// before it ends for its holder.
func Ceil(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Bit returns "1" or "0".
func Bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
