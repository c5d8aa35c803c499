// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

var _ driver.Sets = (*store)(nil)

// maxSet is how many names one script asks for. The server serves no other request
// meanwhile.
const maxSet = 100

// TryAcquireAll implements driver.Sets. In a cluster the names must be in one hash
// slot.
func (s *store) TryAcquireAll(ctx context.Context, reqs []*driver.Request) ([]driver.Grant, error) {
	var all []*attempt
	var keys []string
	args := []string{s.id}
	for _, req := range reqs {
		if err := s.usable(ctx, req); err != nil {
			return nil, err
		}
		a := s.attempt(req)
		all = append(all, a)
		by := s.layout.Beside(a.key)
		keys = append(keys, a.key, s.server.FloorKey(a.key), by+redlockSuffix, by+queueSuffix, by+endedSuffix+req.Lease)
		args = append(args, req.Lease, a.kind, a.record, epoch.Millis(req.TTL))
	}
	if len(all) == 0 || len(all) > maxSet {
		return nil, fmt.Errorf("redislock: %d names in one step, 1 to %d can be: %w", len(all), maxSet, errors.ErrUnsupported)
	}
	record := s.server.EpochKey(all[0].key)
	for _, a := range all {
		if s.server.EpochKey(a.key) != record {
			return nil, fmt.Errorf("redislock: the names are in several hash slots: %w", errors.ErrUnsupported)
		}
	}
	reply, since, by, fail := s.server.RunReplicated(ctx, allScript, append(keys, record), args)
	if fail == nil && epoch.Code(reply) == 1 {
		grants, err := grantedAll(all, reply, since)
		if err == nil {
			s.saw(by, since, reply)
			return grants, nil
		}
		fail = &conn.Failure{Err: err, Maybe: true, Lasting: true}
	}
	if fail == nil {
		return nil, refusedAll(all, reply)
	}
	return undoAll(ctx, all, fail)
}

func grantedAll(all []*attempt, reply []rueidis.RedisMessage, since driver.Instant) ([]driver.Grant, error) {
	if len(reply) != len(all)+2 {
		return nil, fmt.Errorf("%w: the server's answer has %d parts", driver.ErrUncertain, len(reply))
	}
	tokens := make([]uint64, len(all))
	for i := range all {
		var err error
		if tokens[i], err = reply[i+1].AsUint64(); err != nil {
			return nil, fmt.Errorf("%w: token: %w", driver.ErrUncertain, err)
		}
	}
	grants := make([]driver.Grant, len(all))
	for i, a := range all {
		grants[i] = a.granted(tokens[i], since)
	}
	return grants, nil
}

// refusedAll returns why none of the locks was granted.
func refusedAll(all []*attempt, reply []rueidis.RedisMessage) error {
	second := int64(0)
	if len(reply) > 1 {
		second, _ = reply[1].AsInt64()
	}
	switch epoch.Code(reply) {
	case closedNow:
		return closedFor(time.Duration(second) * time.Millisecond)
	case ended:
		return errEnded
	}
	which, _ := reply[len(reply)-1].AsInt64()
	if which < 1 || int(which) > len(all) {
		return fmt.Errorf("%w: the server's answer has %d parts", driver.ErrUncertain, len(reply))
	}
	req := all[which-1].req
	if epoch.Code(reply) == otherSlots {
		return &driver.SlotsError{Held: int(second), Wanted: req.Slots}
	}
	if err := held(req.Name, reply); !errors.Is(err, driver.ErrReleased) {
		return err
	}
	return &driver.HeldError{Info: &driver.Info{Name: req.Name}} // it has a waiter
}

// undoAll is attempt.undo for all of them.
func undoAll(ctx context.Context, all []*attempt, fail *conn.Failure) ([]driver.Grant, error) {
	var grants []driver.Grant
	err := fail.Err
	for _, a := range all {
		a.doubt = fail.Maybe
		var g driver.Grant
		if g, err = a.undo(ctx, fail); g != nil { // else nothing is left to give back
			grants = append(grants, g)
		}
	}
	if len(grants) > 0 {
		err = fail.Err
	}
	return grants, err
}
