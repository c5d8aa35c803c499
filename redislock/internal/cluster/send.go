// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Read sends the commands that cmds makes for each key to the node that has the key, and returns the replies
// in the order of keys. The commands must only read.
func (c *Cluster) Read(ctx context.Context, keys []string, cmds func(b rueidis.Builder, key string) []rueidis.Completed) ([][]rueidis.RedisResult, error) {
	type part struct {
		s    *epoch.Server
		keys []int
	}
	var parts []*part
	byServer := make(map[*epoch.Server]*part)
	for i, key := range keys {
		s, err := c.owner(ctx, c.slot(key))
		if err != nil {
			return nil, err
		}
		p := byServer[s]
		if p == nil {
			p = &part{s: s}
			byServer[s] = p
			parts = append(parts, p)
		}
		p.keys = append(p.keys, i)
	}
	replies := make([][]rueidis.RedisResult, len(keys))
	errs := make(chan error, len(parts))
	for _, p := range parts {
		go func() { errs <- c.readFrom(ctx, p.s, p.keys, keys, cmds, replies) }()
	}
	var err error
	for range parts {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return replies, err
}

// readFrom reads the keys at the indexes some from one node.
func (c *Cluster) readFrom(ctx context.Context, s *epoch.Server, some []int, keys []string, cmds func(rueidis.Builder, string) []rueidis.Completed, replies [][]rueidis.RedisResult) error {
	mine := make([]string, len(some))
	for n, i := range some {
		mine[n] = keys[i]
	}
	got, err := s.Read(ctx, mine, cmds)
	if err != nil {
		return err
	}
	for n, i := range some {
		replies[i] = got[n]
		for k, r := range replies[i] {
			if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
				t := c.trip(keys[i])
				if t.again(ctx, s, err) {
					replies[i][k] = t.send(ctx, func(b rueidis.Builder) rueidis.Completed { return cmds(b, keys[i])[k] })
				}
			}
		}
	}
	return nil
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

// Send sends a command about a key, without the scripts of Config. It returns the answer, which may be nil,
// and an instant before the command was sent.
func (c *Cluster) Send(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure) {
	if c.one != nil {
		return c.one.Send(ctx, key, cmd)
	}
	since := driver.Now()
	t := c.trip(key)
	r := t.send(ctx, cmd)
	return r, since, epoch.Answered(ctx, r)
}
