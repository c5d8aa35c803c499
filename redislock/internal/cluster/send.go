// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/redis/rueidis"
)

// Read sends the commands that cmds makes for each key to the node that has the key, and returns the replies
// in the order of keys. The commands must only read.
func (c *Cluster) Read(ctx context.Context, keys []string, cmds func(b rueidis.Builder, key string) []rueidis.Completed) ([][]rueidis.RedisResult, error) {
	replies := make([][]rueidis.RedisResult, len(keys))
	err := each(keys, func(i int, key string) (err error) {
		replies[i], err = c.read(ctx, key, cmds)
		return err
	})
	return replies, err
}

func (c *Cluster) read(ctx context.Context, key string, cmds func(rueidis.Builder, string) []rueidis.Completed) ([]rueidis.RedisResult, error) {
	s, err := c.owner(ctx, c.slot(key))
	if err != nil {
		return nil, err
	}
	replies, err := s.DoMulti(ctx, cmds(s.Client.B(), key)...)
	for i, r := range replies {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			if t := c.trip(key); t.again(ctx, s, err) {
				replies[i] = t.send(ctx, func(b rueidis.Builder) rueidis.Completed { return cmds(b, key)[i] })
			}
		}
	}
	return replies, err
}

// send sends one command to the node that has its slot, and follows the slot if it moves.
func (t *trip) send(ctx context.Context, cmd func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	for {
		s, asking, err := t.next(ctx)
		if err != nil {
			return rueidis.NewErrorResult(err)
		}
		var r rueidis.RedisResult
		if asking {
			replies, err := s.DoMulti(ctx, s.Client.B().Asking().Build(), cmd(s.Client.B()))
			if err != nil {
				return rueidis.NewErrorResult(err)
			}
			r = replies[1]
		} else {
			r = s.Do(ctx, cmd(s.Client.B()))
		}
		if err := r.Error(); err == nil || rueidis.IsRedisNil(err) || !t.again(ctx, s, err) {
			return r
		}
	}
}

// Send sends a command about a key, without the scripts of Config.
func (c *Cluster) Send(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	if c.one != nil {
		return c.one.Send(ctx, key, cmd)
	}
	t := c.trip(key)
	return t.send(ctx, cmd)
}
