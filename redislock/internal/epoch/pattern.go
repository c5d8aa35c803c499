// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Clients that lock different keys for one name do not exclude each other. So the pattern of
// the keys is in the record of the epoch, and each grant and renewal is checked against it:
// see guard.lua. Before anybody was granted anything there is no record. Then the pattern that
// was recorded under a key of its own by the first client that has opened the store counts, so
// that a client with another one hears of it when it opens, also where there are no epochs.

// Sender sends one command about a key.
type Sender func(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure)

// Agree returns driver.ErrDisagree if other clients of the store have a pattern other than
// layout's. epoch is the key of the record of an epoch. If nobody has used the
// store and record is set, Agree records the pattern.
func Agree(ctx context.Context, send Sender, layout *keys.Layout, epoch string, record bool) error {
	known, used, err := get(ctx, send, epoch)
	if err == nil && used {
		return differs(layout, known, epoch)
	}
	key := layout.Prefix + "pattern"
	if err == nil && record && layout.Pattern != "" {
		// Another one may be there: what is there is looked at.
		r, _, fail := send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Set().Key(key).Value(layout.Pattern).Nx().Build() })
		err = certain(ctx, r, fail)
	}
	if err == nil {
		known, used, err = get(ctx, send, key)
	}
	switch {
	case errors.Is(err, fs.ErrPermission) && layout.Pattern == "":
		return nil // a user who may not read the records, by the rights of earlier versions
	case err != nil:
		return fmt.Errorf("which Pattern the store has is not known: %w", err)
	case !used:
		return nil
	}
	return disagreement(layout, known, key)
}

// Agree is the function Agree for this server. What the binding has seen is not asked for again.
func (s *Server) Agree(ctx context.Context, record bool) error {
	b, err := s.Bound(ctx, nil)
	switch {
	case err != nil:
		return conn.NotBound(ctx, err).Err
	case b.theirs != "":
		return s.differs(b.theirs)
	case b.used:
		return nil
	}
	return Agree(ctx, s.Send, s.Layout, s.epochKey, record)
}

// get returns the value of a key, and whether there is one.
func get(ctx context.Context, send Sender, key string) (value string, found bool, err error) {
	r, _, fail := send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() })
	if fail != nil {
		return "", false, certain(ctx, r, fail)
	}
	value, err = r.ToString()
	if rueidis.IsRedisNil(err) {
		return "", false, nil
	}
	return value, err == nil, err
}

// certain is the error of a request that leaves nothing in doubt if its answer is lost: it reads, or records the
// pattern that the next request reads.
func certain(ctx context.Context, r rueidis.RedisResult, fail *conn.Failure) error {
	switch {
	case fail == nil:
		return nil
	case fail.Maybe:
		return conn.NotBound(ctx, r.Error()).Err
	}
	return fail.Err
}

// disagreement is the error of a client with this layout in a store whose pattern is another
// one, by what key says; or nil.
func disagreement(layout *keys.Layout, theirs, key string) error {
	own := layout.Pattern
	const next = "or choose another Prefix; when all clients of the store have ended, DEL of %q and of the records %q lets the next one choose"
	records := layout.Prefix + "epoch*"
	switch {
	case own == theirs:
		return nil
	case theirs == "":
		return storekit.Disagreef("clients without a Pattern have been at work with the prefix %q (%s), and the Pattern here is %q: choose another Prefix", layout.Prefix, key, own)
	case own == "":
		return storekit.Disagreef("the locks of this store have the keys %q (%s), and no Pattern is set here: set it (?pattern=%s), "+next, theirs, key, theirs, layout.Prefix+"pattern", records)
	}
	return storekit.Disagreef("the locks of this store have the keys %q (%s), and the Pattern here is %q: set the same one, "+next, theirs, key, own, layout.Prefix+"pattern", records)
}

// differs is disagreement with clients that have made a record, or the error of a record of another version.
func differs(layout *keys.Layout, record, key string) error {
	pattern, ok := keys.PatternOf(record)
	if !ok {
		found, _, _ := strings.Cut(record, " ")
		explained, _ := conn.Explain(errors.New("LAYOUT " + driver.Shorten(found)))
		return fmt.Errorf("%w (%s)", explained, key)
	}
	return disagreement(layout, pattern, key)
}

func (s *Server) differs(theirs string) error { return differs(s.Layout, theirs, s.Prefix+"epoch") }

// Differs returns why nothing may be granted or renewed here, or nil: clients with other keys are
// granted leases. If they have one slot of a cluster, this client stops in all of them, as
// theirs and its own locks of one name are in different slots.
func (s *Server) Differs(b *Binding) *conn.Failure {
	theirs := b.theirs
	if t := s.Limit.theirs.Load(); t != nil {
		theirs = *t
	}
	if theirs == "" {
		return nil
	}
	return &conn.Failure{Err: s.differs(theirs), Lasting: true}
}

// Had notes that this participant has, or had, a lease in the store, if a reply says so.
func (s *Server) Had(reply []rueidis.RedisMessage) {
	if Code(reply) == 1 && !s.Limit.had.Load() {
		s.Limit.had.Store(true)
	}
}
