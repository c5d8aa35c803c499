// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Inspect implements driver.Store.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	infos, err := s.look(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return infos[0], nil
}

const batch = 250 // names asked for at a time

// List implements driver.Store. It goes through all keys of the server, a thousand
// at a time. So it does not hold up other requests, and takes long on a full server.
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
	servers, err := s.server.Servers(ctx)
	if err != nil {
		return nil, readError(ctx, err)
	}
	found := make(map[string]bool) // SCAN may return a key twice
	for _, srv := range servers {
		if err := s.scanServer(ctx, srv, prefix, found); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}

func (s *store) scanServer(ctx context.Context, srv *epoch.Server, prefix string, found map[string]bool) error {
	for _, pattern := range s.layout.Patterns(prefix, queueSuffix) {
		if err := s.scanFor(ctx, srv, pattern, prefix, found); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) scanFor(ctx context.Context, srv *epoch.Server, pattern, prefix string, found map[string]bool) error {
	for cursor := uint64(0); ; {
		page, err := srv.Do(ctx, srv.Client.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return readError(ctx, conn.Lacking(err, "scan"))
		}
		for _, key := range page.Elements {
			name, ok := s.layout.Name(key)
			if !ok {
				name, ok = s.layout.NameBeside(key, queueSuffix)
			}
			if ok && strings.HasPrefix(name, prefix) {
				found[name] = true
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// look describes names.
func (s *store) look(ctx context.Context, names []string) ([]*driver.Info, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		if err := s.checkName(name); err != nil {
			return nil, err
		}
		keys[i] = s.layout.Lock(name)
	}
	replies, err := s.server.Read(ctx, keys, func(b rueidis.Builder, key string) []rueidis.Completed {
		by := s.layout.Beside(key)
		return []rueidis.Completed{
			b.Get().Key(key).Build(),
			b.Pttl().Key(key).Build(),
			b.Zrange().Key(by + queueSuffix).Min("0").Max("-1").Withscores().Build(),
		}
	})
	if err != nil {
		return nil, readError(ctx, err)
	}
	now := time.Now()
	infos := make([]*driver.Info, len(names))
	for i, name := range names {
		info, several, err := readInfo(name, replies[i], now)
		if err == nil && several {
			err = s.lookAtSharers(ctx, keys[i], info)
		}
		if err != nil {
			return nil, readError(ctx, err)
		}
		infos[i] = info
	}
	return infos, nil
}

// lookAtSharers adds the holders of a lock that several hold together.
func (s *store) lookAtSharers(ctx context.Context, key string, info *driver.Info) error {
	replies, err := s.server.Read(ctx, []string{key}, func(b rueidis.Builder, key string) []rueidis.Completed {
		return []rueidis.Completed{
			b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(),
			b.Time().Build(),
			b.Get().Key(key).Build(),
			b.Pttl().Key(key).Build(),
		}
	})
	if err != nil {
		return err
	}
	members, err := replies[0][0].AsZScores()
	if isWrongType(err) && !isWrongType(replies[0][2].Error()) { // the last sharer has gone
		if value := text(replies[0][2]); value != "" { // and one lease holds it alone by now
			pttl, _ := replies[0][3].AsInt64()
			info.Holders = append(info.Holders, parseHeld(value, pttl, time.Now()))
			info.Token = max(info.Token, info.Holders[0].Token)
		}
		return nil
	}
	if isWrongType(err) { // the lock of another library, as Redisson's hash
		pttl, _ := replies[0][3].AsInt64()
		info.Holders = append(info.Holders, parseHeld("?", pttl, time.Now()))
		return nil
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return conn.Lacking(err, "zrange")
	}
	at, err := replies[0][1].AsIntSlice()
	if err != nil || len(at) != 2 {
		return conn.Lacking(err, "time")
	}
	info.Holders = append(info.Holders, readSharers(members, time.Unix(at[0], at[1]*1000))...)
	for _, h := range info.Holders {
		info.Token = max(info.Token, h.Token)
	}
	return nil
}

func isWrongType(err error) bool {
	ret, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(ret.Error(), "WRONGTYPE")
}

// readInfo also says whether the lock is one that several can hold together, which
// are not in the reply.
func readInfo(name string, r []rueidis.RedisResult, now time.Time) (info *driver.Info, several bool, err error) {
	info = &driver.Info{Name: name, Holders: []driver.Held{}}
	value, err := r[0].ToString()
	if several = isWrongType(err); err != nil && !several && !rueidis.IsRedisNil(err) {
		return nil, false, conn.Lacking(err, "get")
	}
	pttl, err := r[1].AsInt64()
	if err != nil {
		return nil, false, conn.Lacking(err, "pttl")
	}
	if value != "" && !several {
		info.Holders = append(info.Holders, parseHeld(value, pttl, now))
		info.Token = info.Holders[0].Token
	}
	queue, err := r[2].AsZScores()
	if isWrongType(err) { // another program's
		info.Holders = append(info.Holders, parseHeld("?", -1, now))
		return info, several, nil
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, false, conn.Lacking(err, "zrange")
	}
	for _, m := range queue {
		info.Waiters = append(info.Waiters, parseWaiter(m.Member, m.Score))
	}
	return info, several, nil
}

// Describe implements driver.Store. Of a cluster it looks at some hash slots of each master.
func (s *store) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	is, err := s.server.State(ctx)
	if err != nil {
		return nil, err
	}
	return is.Info(), nil
}

// Break implements driver.Store.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if by == nil {
		by = &driver.Holder{}
	}
	if err := s.checkName(name); err != nil {
		return err
	}
	key := s.layout.Lock(name)
	beside := s.layout.Beside(key)
	reply, _, fail := s.server.Run(ctx, breakScript,
		[]string{key, s.server.FloorKey(key), beside + queueSuffix, s.server.EpochKey(key), beside + brokenSuffix, beside + endedSuffix + lease},
		[]string{lease, claimMillis, s.server.ChannelFor(key), storekit.Record{Holder: *by, Why: why}.String(), epoch.Millis(s.limit.Longest())})
	if fail != nil {
		return fail.Err
	}
	if epoch.Code(reply) == 1 {
		return nil
	}
	return heldBy(name, reply)
}

// heldBy returns the error of a script that was run for a lease which does not hold the lock: by what it has returned,
// another one does, or none.
func heldBy(name string, reply []rueidis.RedisMessage) error {
	if len(reply) < 3 {
		return driver.ErrReleased
	}
	value, _ := reply[1].ToString()
	pttl, _ := reply[2].AsInt64()
	info := &driver.Info{Name: name, Holders: holders(value, pttl, reply[len(reply)-1])}
	if len(info.Holders) == 0 {
		return driver.ErrReleased
	}
	for _, h := range info.Holders {
		info.Token = max(info.Token, h.Token)
	}
	return &driver.HeldError{Info: info}
}

func text(r rueidis.RedisResult) string {
	s, _ := r.ToString()
	return s
}
