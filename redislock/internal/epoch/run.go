// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Reply is the reply of a script.
type Reply struct {
	Parts   []rueidis.RedisMessage // the first is a number, the code; empty if there is no reply
	Since   driver.Instant         // before the script was sent
	By      *Server
	Binding *Binding
}

// RunID returns the id of the run that has answered, or "" if the server is not guarded.
func (r Reply) RunID() string { return r.Binding.boot }

// Code returns the first element of the reply.
func (r Reply) Code() int64 { return Code(r.Parts) }

// Codes that a script returns if it did nothing.
const (
	noEpoch     = -1 // the record of the epoch is missing, or must be made anew
	beyondLimit = -5 // the TTL is longer than MaxTTL
)

// Tries is how often a script is called while the server does not know the script, or has no record of the epoch.
const Tries = 5

// Run runs a script at a server that belongs to no cluster. If scripts are missing at the server, Run loads them. If the
// epoch is missing, Run begins it. If Run returns a Failure, the caller must not trust the reply.
//
// After a script has granted or renewed a lease, Run waits until Config.Replicas replicas have confirmed it. If
// they do not confirm within Config.ReplicaTimeout, Run fails with conn.Behind.
func (s *Server) Run(ctx context.Context, script int, keys, args []string) (Reply, *driver.Failure) {
	var stale *Binding // must not be used any more
	var fail *driver.Failure
	elsewhere := false // the connection has led to a replica, or to another run
	for range Tries {
		b, err := s.Bound(ctx, stale)
		if err != nil {
			return Reply{}, conn.NotBound(ctx, err)
		}
		again, refusal := s.Prepare(b, script)
		if refusal != nil {
			return Reply{}, refusal
		}
		if again {
			stale, fail = b, Forgets()
			continue
		}
		made, since := s.Made(), driver.Now()
		parts, err := s.ask(ctx, b, script, keys, args)
		if err != nil {
			first := stale == nil && !elsewhere
			if fail = s.elsewhere(ctx, first, made, err); fail == nil {
				return Reply{}, conn.Classify(ctx, err)
			}
			if stale, elsewhere = b, true; !first { // b is new, and so leads to a master: keep it
				stale = nil
			}
			continue
		}
		reply := Reply{parts, since, s, b}
		if again, refusal = s.Judge(ctx, reply, script, s.epochKey); !again {
			return reply, refusal
		}
		stale, fail = b, Forgets()
	}
	return Reply{}, fail
}

// Forgets returns the Failure of a request that the server did not execute, because the scripts or the
// record of the epoch were missing each time.
func Forgets() *driver.Failure {
	return &driver.Failure{Err: conn.Unavailable(errForgets)}
}

// Prepare gets ready for a script; the caller calls it before each one. After the first script
// that may grant a lease, this participant begins and joins epochs. Prepare returns a Failure
// if the script must not run, and again if the caller must first make b anew.
func (s *Server) Prepare(b *Binding, script int) (again bool, fail *driver.Failure) {
	if b.boot != "" && s.Scripts[script].Leases() {
		if fail := s.Differs(b); fail != nil {
			return false, fail
		}
	}
	if !s.Scripts[script].Grants || b.boot == "" {
		return false, nil
	}
	if err := s.Limit.agree(); err != nil {
		return false, &driver.Failure{Err: err, Lasting: true}
	}
	if first := !s.writes.Swap(true); first && s.Slots == nil && (s.hasMoved() || s.Limit.doubts()) {
		return true, nil // the server does not know yet where this participant was before, or its longer MaxTTL
	}
	return b.limit == 0 || b.limit != cmp.Or(s.Limit.now().TTL, b.limit), nil
}

// ask runs a script for one request. It may combine the request with others into one call.
func (s *Server) ask(ctx context.Context, b *Binding, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
	if own := s.Scripts[script].PerRequest; own > 0 {
		return s.batches.ask(ctx, scriptCall{b, script, own}, keys, args)
	}
	return s.Do(ctx, b.Call(s.Client, script, keys, args)).ToArray()
}

// evalsha is batches.send.
func (s *Server) evalsha(ctx context.Context, call scriptCall, n int, keys, args []string) (replies []rueidis.RedisMessage, err error) {
	do, cmd := s.Do, call.b.Call(s.Client, call.script, keys, args)
	if n > 1 {
		do = s.DoBatch
	}
	if replies, err = do(ctx, cmd).ToArray(); err == nil && len(replies) != n {
		err = conn.WrongLength(len(replies), n)
	}
	return replies, err
}

// Read reads the result of a script that was called for one request.
func (s *Server) Read(script int, r rueidis.RedisResult) ([]rueidis.RedisMessage, error) {
	reply, err := r.ToArray()
	if err == nil && s.Scripts[script].PerRequest > 0 {
		if len(reply) != 1 {
			return nil, conn.WrongLength(len(reply), 1)
		}
		return reply[0].ToArray()
	}
	return reply, err
}

// Judge returns a Failure if a reply must not be trusted, and again if the script did nothing because of the epoch: its
// record is missing, is of another run, or has another MaxTTL. The next attempt has to join the epoch anew.
func (s *Server) Judge(ctx context.Context, r Reply, script int, epochKey string) (again bool, fail *driver.Failure) {
	if NoEpoch(r.Parts) {
		fail = s.Differs(r.Binding)
		return fail == nil, fail
	}
	switch r.Code() {
	case beyondLimit:
		return false, s.beyond(r)
	case 1:
		s.Limit.had.Store(true)
	}
	s.astray.useful()
	if fail = s.Stale(r.Binding); fail == nil && s.Scripts[script].Leases() && r.Code() == 1 {
		fail = s.replicated(ctx, r.Binding, epochKey)
	}
	return false, fail
}

// NoEpoch reports whether a script did nothing because of the epoch.
func NoEpoch(reply []rueidis.RedisMessage) bool { return len(reply) == 0 || Code(reply) == noEpoch }

// beyond returns the Failure of a script that has returned beyondLimit.
func (s *Server) beyond(r Reply) *driver.Failure {
	ttl := int64(0)
	if len(r.Parts) > 1 {
		ttl, _ = r.Parts[1].AsInt64()
	}
	t := s.Limit.now()
	t.TTL = r.Binding.limit
	return &driver.Failure{Err: t.Refuse(time.Duration(ttl) * time.Millisecond), Lasting: true}
}

// Code returns the first element of a script's reply.
func Code(reply []rueidis.RedisMessage) int64 {
	n, _ := reply[0].AsInt64()
	return n
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
