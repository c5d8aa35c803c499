// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Clients that lock different keys for one name do not exclude each other. So the record of
// the epoch contains the pattern of the keys, and the scripts check each grant and renewal
// against it: see guard.lua. Before the first grant there is no record. So the first client
// that opens the store with a pattern also writes it to the key PREFIXpattern. A client with
// another pattern then gets an error when it opens, even if the server is unguarded and has
// no epochs.

// Sender sends one command about a key.
type Sender func(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult

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
		// Another client may have written its pattern before. So read the key afterwards.
		_, _, err = text(ctx, send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Set().Key(key).Value(layout.Pattern).Nx().Build() }))
	}
	if err == nil {
		known, used, err = get(ctx, send, key)
	}
	switch {
	case err != nil:
		return fmt.Errorf("which Pattern the store has is not known: %w", err)
	case !used:
		return nil
	}
	return disagreement(layout, known, key)
}

// Agree is the function Agree for this server. It uses the record that the Binding has read, if there was one.
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
	return text(ctx, send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() }))
}

// text returns the text of an answer that may be nil. A lost answer does no harm: the request only reads, or it writes the
// pattern, which the next request reads.
func text(ctx context.Context, r rueidis.RedisResult) (value string, found bool, err error) {
	value, err = r.ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return "", false, nil
	case err != nil:
		return "", false, conn.NotBound(ctx, err).Err
	}
	return value, true, nil
}

// disagreement returns the error of a client with layout if the store has another pattern,
// theirs. key is the key in which the client has found it.
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

// differs is disagreement for a record of an epoch. It also returns an error if another version has made the record.
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

// Differs returns an error if clients with another pattern use this store: then this client must not
// get or renew leases. If they use one slot of a cluster, this client stops in all slots, since their
// lock for a name may be in another slot than its own.
func (s *Server) Differs(b *Binding) *driver.Failure {
	theirs := b.theirs
	if t := s.Limit.theirs.Load(); t != nil {
		theirs = *t
	}
	if theirs == "" {
		return nil
	}
	return &driver.Failure{Err: s.differs(theirs), Lasting: true}
}
