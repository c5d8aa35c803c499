// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Inspect implements driver.Inspector.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	infos, err := s.look(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return infos[0], nil
}

const batch = 250 // names asked for at a time

// List implements driver.Inspector. It looks through all keys of the server a
// thousand at a time, so it disturbs nobody and is slow on a full one.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	names, err := s.scan(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var infos []*driver.Info
	for part := range slices.Chunk(names, batch) {
		some, err := s.look(ctx, part)
		if err != nil {
			return nil, err
		}
		infos = append(infos, some...)
	}
	infos = slices.DeleteFunc(infos, func(i *driver.Info) bool { return len(i.Holders)+len(i.Waiters) == 0 })
	slices.SortFunc(infos, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

// scan returns the names that begin with prefix and have a lock or a queue.
func (s *store) scan(ctx context.Context, prefix string) ([]string, error) {
	pattern := glob(strings.TrimSuffix(lockKey(s.prefix, prefix), "}")) + "*"
	found := make(map[string]bool) // SCAN may return a key twice
	for cursor := uint64(0); ; {
		if err := s.usable(ctx, nil); err != nil {
			return nil, err
		}
		page, err := s.do(ctx, s.client.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return nil, readError(ctx, lacking(err, "scan"))
		}
		for _, key := range page.Elements {
			name, ok := lockName(s.prefix, key)
			if ok && strings.HasPrefix(name, prefix) && !strings.HasSuffix(key, floorSuffix) && !strings.HasSuffix(key, brokenSuffix) {
				found[name] = true
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	return names, nil
}

// readError returns the error of a request that records nothing anyway.
func readError(ctx context.Context, err error) error { return notBound(ctx, err).err }

// look describes names.
func (s *store) look(ctx context.Context, names []string) ([]*driver.Info, error) {
	if err := s.usable(ctx, nil); err != nil {
		return nil, err
	}
	const each = 4
	var ask []rueidis.Completed
	for _, name := range names {
		key := lockKey(s.prefix, name)
		ask = append(ask,
			s.client.B().Get().Key(key).Build(),
			s.client.B().Pttl().Key(key).Build(),
			s.client.B().Get().Key(key+floorSuffix).Build(),
			s.client.B().Zrange().Key(key+queueSuffix).Min("0").Max("-1").Withscores().Build())
	}
	answer := make(chan []rueidis.RedisResult, 1)
	go func() { answer <- s.client.DoMulti(ctx, ask...) }() // see do
	var replies []rueidis.RedisResult
	select {
	case replies = <-answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	infos := make([]*driver.Info, len(names))
	for i, name := range names {
		info, err := readInfo(name, replies[i*each:(i+1)*each], now)
		if err != nil {
			return nil, readError(ctx, err)
		}
		infos[i] = info
	}
	return infos, nil
}

func readInfo(name string, r []rueidis.RedisResult, now time.Time) (*driver.Info, error) {
	info := &driver.Info{Name: name, Holders: []driver.Held{}}
	value, err := r[0].ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, lacking(err, "get")
	}
	pttl, err := r[1].AsInt64()
	if err != nil {
		return nil, lacking(err, "pttl")
	}
	if value != "" {
		info.Holders = append(info.Holders, parseHeld(value, pttl, now))
		info.Token = info.Holders[0].Token
	}
	if floor, err := r[2].AsUint64(); err == nil {
		info.Token = max(info.Token, floor)
	}
	queue, err := r[3].AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, lacking(err, "zrange")
	}
	for _, m := range queue {
		info.Waiters = append(info.Waiters, parseWaiter(m.Member, m.Score))
	}
	return info, nil
}

// Break implements driver.Inspector.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if err := s.usable(ctx, nil); err != nil {
		return err
	}
	if by == nil {
		by = &driver.Holder{}
	}
	key := lockKey(s.prefix, name)
	reply, _, fail := s.run(ctx, breakScript,
		[]string{key, key + floorSuffix, key + queueSuffix, s.epochKey(), key + brokenSuffix},
		[]string{lease, millis(claimTTL), s.channel, newRecord(by, why), millis(s.maxTTL)})
	if fail != nil {
		return fail.err
	}
	if code(reply) == 1 {
		return nil
	}
	var t turn
	if len(reply) == 3 {
		t.value, _ = reply[1].ToString()
		t.pttl, _ = reply[2].AsInt64()
	}
	if t.value == "" {
		return driver.ErrReleased
	}
	return &driver.HeldError{Info: t.info(name)}
}
