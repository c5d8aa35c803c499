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

const namesPerRequest = 250 // names for which look asks at a time

// List implements driver.Store. It scans all keys of the server, a thousand at a time.
// So it does not hold up other requests, but takes long if the server has many keys.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	names, err := s.scan(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var infos []*driver.Info
	for part := range slices.Chunk(names, namesPerRequest) {
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
		for _, pattern := range s.layout.Patterns(prefix, queueSuffix) {
			err := scan(ctx, srv, pattern, func(keys []string) error {
				for _, key := range keys {
					name, ok := s.layout.Name(key)
					if !ok {
						name, ok = s.layout.NameBeside(key, queueSuffix)
					}
					if ok && strings.HasPrefix(name, prefix) {
						found[name] = true
					}
				}
				return nil
			})
			if err != nil {
				return nil, readError(ctx, err)
			}
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}

// scan calls f with each page of the keys of a server that match a pattern, until f returns an error.
func scan(ctx context.Context, srv *epoch.Server, pattern string, f func(keys []string) error) error {
	for cursor := uint64(0); ; {
		page, err := srv.Do(ctx, srv.Client.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return conn.Lacking(err, "scan")
		}
		if err := f(page.Elements); err != nil {
			return err
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// look returns the holders and waiters of names.
func (s *store) look(ctx context.Context, names []string) ([]*driver.Info, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		if err := s.checkName(name); err != nil {
			return nil, err
		}
		keys[i] = s.layout.Lock(name)
	}
	replies, err := s.read(ctx, keys)
	if err != nil {
		return nil, readError(ctx, err)
	}
	now := time.Now()
	infos := make([]*driver.Info, len(names))
	for i, name := range names {
		if r := replies[i]; isWrongType(r[0].Error()) && isWrongType(r[3].Error()) {
			// GET and ZRANGE have both refused the type. Either another library locks with another type, as Redisson
			// does with a hash; or the lock changed its type between the two commands. A second look tells.
			again, err := s.read(ctx, keys[i:i+1])
			if err != nil {
				return nil, readError(ctx, err)
			}
			replies[i] = again[0]
		}
		if infos[i], err = readInfo(name, replies[i], now); err != nil {
			return nil, readError(ctx, err)
		}
	}
	return infos, nil
}

func (s *store) read(ctx context.Context, keys []string) ([][]rueidis.RedisResult, error) {
	return s.server.Read(ctx, keys, func(b rueidis.Builder, key string) []rueidis.Completed {
		by := s.layout.Beside(key)
		return []rueidis.Completed{
			b.Get().Key(key).Build(),
			b.Pttl().Key(key).Build(),
			b.Zrange().Key(by + queueSuffix).Min("0").Max("-1").Withscores().Build(),
			b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(),
			b.Time().Build(),
		}
	})
}

func isWrongType(err error) bool {
	ret, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(ret.Error(), "WRONGTYPE")
}

// readInfo reads the replies to the commands of read.
func readInfo(name string, r []rueidis.RedisResult, now time.Time) (*driver.Info, error) {
	info := &driver.Info{Name: name, Holders: []driver.Held{}}
	held, err := readHolders(r, now)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		info.Holders = append(info.Holders, h)
		info.Token = max(info.Token, h.Token)
	}
	queue, err := r[2].AsZScores()
	if isWrongType(err) { // another program has written the key of the queue
		info.Holders = append(info.Holders, parseHeld("?", -1, now))
		return info, nil
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, conn.Lacking(err, "zrange")
	}
	for _, m := range queue {
		info.Waiters = append(info.Waiters, parseWaiter(m.Member, m.Score))
	}
	return info, nil
}

func readHolders(r []rueidis.RedisResult, now time.Time) ([]driver.Held, error) {
	value, err := r[0].ToString()
	if err != nil && !isWrongType(err) && !rueidis.IsRedisNil(err) {
		return nil, conn.Lacking(err, "get")
	}
	pttl, errTTL := r[1].AsInt64()
	if errTTL != nil {
		return nil, conn.Lacking(errTTL, "pttl")
	}
	sharers, errShared := r[3].AsZScores()
	switch {
	case err == nil && value != "":
		return []driver.Held{parseHeld(value, pttl, now)}, nil
	case isWrongType(err) && isWrongType(errShared):
		return []driver.Held{parseHeld("?", pttl, now)}, nil
	case len(sharers) > 0:
		at, err := r[4].AsIntSlice()
		if err != nil || len(at) != 2 {
			return nil, conn.Lacking(err, "time")
		}
		return readSharers(sharers, time.Unix(at[0], at[1]*1000)), nil
	case isWrongType(errShared) || rueidis.IsRedisNil(errShared):
		return nil, nil
	}
	return nil, conn.Lacking(errShared, "zrange")
}

// Describe implements driver.Store. In a cluster it asks each master about some of its hash slots.
func (s *store) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	is, err := s.server.State(ctx)
	if err != nil {
		return nil, err
	}
	return is.Info(), nil
}

// Break implements driver.Store. With Efficiency it grants nothing to waiters, since it knows no quarantine: they find the
// lock free when they look.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if err := s.checkName(name); err != nil {
		return err
	}
	key := s.layout.Lock(name)
	beside := s.layout.Beside(key)
	keys := []string{key, s.server.FloorKey(key), beside + queueSuffix, s.server.EpochKey(key), beside + brokenSuffix, beside + endedSuffix + lease}
	args := []string{lease, claimMillis, s.server.ChannelFor(key), storekit.Record{Holder: *cmp.Or(by, &driver.Holder{}), Why: why}.String(), epoch.Millis(s.limit.Longest())}
	var reply []rueidis.RedisMessage
	var fail *driver.Failure
	if s.mode == Efficiency {
		none := beside + ":none" // a proxy before several servers needs keys with one hash tag
		keys[1], keys[2], keys[3] = none, none, none
		reply, _, fail = efficient{s}.run(ctx, breakEfficient, keys, args...)
	} else {
		var r epoch.Reply
		r, fail = s.server.Run(ctx, breakScript, keys, args)
		reply = r.Parts
	}
	if fail != nil {
		return fail.Err
	}
	if epoch.Code(reply) == 1 {
		return nil
	}
	return heldBy(name, reply)
}

// heldBy returns the error for a lease that does not hold its lock, given the reply of the script: a HeldError with
// the present holders, or ErrReleased if there are none.
func heldBy(name string, reply []rueidis.RedisMessage) error {
	if len(reply) != 4 {
		return driver.ErrReleased
	}
	value, _ := reply[1].ToString()
	pttl, _ := reply[2].AsInt64()
	info := &driver.Info{Name: name, Holders: holders(value, pttl, reply[3])}
	if len(info.Holders) == 0 {
		return driver.ErrReleased
	}
	for _, h := range info.Holders {
		info.Token = max(info.Token, h.Token)
	}
	return &driver.HeldError{Info: info}
}
