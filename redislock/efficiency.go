// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/efficiency"
)

// sharedWith is a store as the driver for efficiency sees it.
type sharedWith struct{ *store }

var _ efficiency.Participant = sharedWith{}

func (s sharedWith) Usable(ctx context.Context, req *driver.Request) error { return s.usable(ctx, req) }
func (s sharedWith) CheckTTL(ttl time.Duration) error                      { return s.checkTTL(ttl) }
func (s sharedWith) Key(name string) string                                { return s.layout.Lock(name) }
func (s sharedWith) Record(by *driver.Holder, why string) string {
	return storekit.Record{Holder: *by, Why: why}.String()
}

func (s sharedWith) Send(ctx context.Context, key string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure) {
	return s.server.Send(ctx, key, cmd)
}

func (s sharedWith) Held(name string, reply []rueidis.RedisMessage) error { return held(name, reply) }

func (s sharedWith) Value(req *driver.Request) string {
	return strings.Join([]string{req.Lease, s.id, "0", strconv.FormatInt(time.Now().UnixMicro(), 10), s.records.Of(req, req.Keeps)}, " ")
}

func (s sharedWith) Broken(key string) (news, channel string, remember time.Duration) {
	return s.layout.Beside(key) + brokenSuffix, s.prefix + "client:", s.limit.Longest()
}

func (s sharedWith) Lost(ctx context.Context, key, lease string) error {
	return storekit.HowLost(s.broken(ctx, key, lease))
}
