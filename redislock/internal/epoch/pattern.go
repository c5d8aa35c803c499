// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Sender sends one command about a key.
type Sender func(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure)

// Agree records the pattern of a layout where all clients see it, or returns driver.ErrDisagree
// if that of the others is another one.
//
// record is the key of the record of an epoch. If it is there and no pattern is, clients
// without one have been granted locks: the pattern is recorded before the first epoch.
func Agree(ctx context.Context, send Sender, layout *keys.Layout, record string) error {
	key, own := layout.Prefix+"pattern", layout.Pattern
	if own != "" {
		r, _, fail := send(ctx, record, func(b rueidis.Builder) rueidis.Completed { return b.Exists().Key(record).Build() })
		if fail != nil {
			return fail.Err
		}
		if used, err := r.AsInt64(); err == nil && used == 0 {
			// Another one may be there by now: what is there is looked at.
			if _, _, fail = send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Set().Key(key).Value(own).Nx().Build() }); fail != nil {
				return fail.Err
			}
		}
	}
	r, _, fail := send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() })
	if fail != nil && own == "" && errors.Is(fail.Err, fs.ErrPermission) {
		return nil // a user who may not read the record, by the rights of earlier versions
	}
	if fail != nil {
		return fail.Err
	}
	theirs, err := r.ToString()
	const next = "when all clients of the store have ended, DEL %s lets the next one choose"
	switch {
	case rueidis.IsRedisNil(err) && own == "", err == nil && theirs == own:
		return nil
	case rueidis.IsRedisNil(err):
		return &Disagreement{fmt.Sprintf("clients without a Pattern have been at work with the prefix %q, and the Pattern here is %q: choose another Prefix", layout.Prefix, own)}
	case err != nil:
		return fmt.Errorf("%w: which Pattern the store has is not known: %w", driver.ErrUnavailable, err)
	case own == "":
		return &Disagreement{fmt.Sprintf("the locks of this store have the keys %q, and no Pattern is set here: set it (?pattern=%s), or choose another Prefix; "+next, theirs, theirs, key)}
	}
	return &Disagreement{fmt.Sprintf("the locks of this store have the keys %q, and the Pattern here is %q: set the same one, or choose another Prefix; "+next, theirs, own, key)}
}
