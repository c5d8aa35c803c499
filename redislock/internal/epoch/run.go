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

// Source is a run of a server that has answered a request.
type Source struct {
	*Server
	Binding *Binding
}

// Run returns the id of that run, or "" if it is not guarded, or none.
func (s Source) Run() string {
	if s.Binding == nil {
		return ""
	}
	return s.Binding.boot
}

// Heard notes that a script was run, and returns why its reply must not be trusted, or nil.
func (s *Server) Heard(b *Binding, reply []rueidis.RedisMessage) *conn.Failure {
	s.astray.useful()
	s.Had(reply)
	return s.Stale(b)
}

// Forgets is why a request was not carried out for which the scripts, or the record of the epoch, were
// missing each time.
func Forgets() *conn.Failure {
	return &conn.Failure{Err: conn.Unavailable(errForgets)}
}

// Codes of scripts that could not do what they were asked.
const (
	NoEpoch     = -1
	BeyondLimit = -5
)

// Grants is called before each script. If the script may grant something, this
// participant begins epochs from now on. Grants returns why it must not run the script,
// or whether b must be made anew.
func (s *Server) Grants(b *Binding, script int) (again bool, err error) {
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
		return true, nil // the server lacks something that this participant knows
	}
	return b.limit == 0 || b.limit != cmp.Or(s.Limit.now().TTL, b.limit), nil
}

// Beyond is the Failure of a script that found the TTL to be too long.
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

// call is a script of a Binding that takes many requests.
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

// Ask runs a script for one request, together with others perhaps.
func (s *Server) Ask(ctx context.Context, b *Binding, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
	if s.Scripts[script].PerRequest > 0 {
		return s.requests.Ask(ctx, &b.calls[script], keys, args)
	}
	return s.Do(ctx, b.Call(s.Client, script, keys, args)).ToArray()
}

// Reply reads what a script has returned for one request.
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
