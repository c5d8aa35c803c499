// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Sender sends one command about a key.
type Sender func(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure)

// Agree records the pattern of a layout where all clients see it, or returns driver.ErrDisagree
// if that of the others is another one. Clients without a pattern only look, and it does
// not matter to them if that fails: those that have one refuse to begin without the record.
func Agree(ctx context.Context, send Sender, layout *keys.Layout) error {
	key, own := layout.Prefix+"pattern", layout.Pattern
	if own != "" {
		r, _, fail := send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Set().Key(key).Value(own).Nx().Build() })
		if fail != nil {
			return fail.Err
		}
		if r.Error() == nil {
			return nil
		}
	}
	r, _, fail := send(ctx, key, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() })
	if fail != nil && own != "" {
		return fail.Err
	}
	theirs, err := r.ToString()
	switch {
	case fail != nil || rueidis.IsRedisNil(err) && own == "" || theirs == own:
		return nil
	case err != nil:
		return fmt.Errorf("%w: which Pattern the store has is not known: %w", driver.ErrUnavailable, err)
	case own == "":
		return &Disagreement{fmt.Sprintf("the locks of this store have the keys %q, and no Pattern is set here: set it (?pattern=%s), or choose another Prefix", theirs, theirs)}
	}
	return &Disagreement{fmt.Sprintf("the locks of this store have the keys %q, and the Pattern here is %q: set the same one, or choose another Prefix; "+
		"when all clients of the store have ended, DEL %s lets the next one choose", theirs, own, key)}
}
