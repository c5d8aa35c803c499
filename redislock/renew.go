// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// handleOf returns the handle of a lease. If another process acquired the lease, the record is empty, and the server
// has to look for it.
func handleOf(l driver.Ref) handle {
	if h, known := l.Handle.(*handle); known {
		return *h
	}
	return handle{kind: kindOf(l.Shared, l.Slots)}
}

// unknownAttempt stands for the attempt of a shared lease whose record is not known; see extend.lua.
const unknownAttempt = "?"

// Renew implements driver.Store.
func (s *store) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if err := s.checkTTL(ttl); err != nil {
		return driver.Renewal{}, &driver.Failure{Err: err, Lasting: true}
	}
	key, h, shares := s.layout.Lock(l.Name), handleOf(l), ""
	switch {
	case h.kind == exclusive:
	case h.record == "":
		shares = unknownAttempt
	default:
		shares = attemptText(l.Lease, s.id, h.kind, h.record)
	}
	said := struct { // both in one allocation
		keys [1]string
		args [5]string
	}{[...]string{key}, [...]string{l.Lease, epoch.Millis(ttl), shares, s.server.EpochKey(key), s.layout.Beside(key)}}
	reply, fail := s.server.Run(ctx, extendScript, said.keys[:], said.args[:])
	if fail != nil {
		return driver.Renewal{}, fail
	}
	r := driver.Renewal{Since: reply.Since, Clock: clockOf(reply)}
	switch {
	case len(reply.Parts) != 3:
		return r, storekit.HowLost("")
	case reply.Code() != 1:
		news, _ := reply.Parts[1].ToString()
		return r, storekit.HowLost(news)
	}
	left, _ := reply.Parts[1].AsInt64()
	r.Kept = time.Duration(left)*time.Millisecond >= ttl
	return r, nil
}

// End implements driver.Store.
//
// If a request for the lease was given up, the server may still execute it: even long after End, if the two used
// different connections. So with Doubt the script leaves a tombstone for the lease.
func (s *store) End(ctx context.Context, l driver.Ref, how driver.End) (found bool, err error) {
	key, h := s.layout.Lock(l.Name), handleOf(l)
	said := struct { // both in one allocation
		keys [5]string
		args [8]string
	}{s.keysOf(key, l.Lease), [...]string{claimMillis, s.server.ChannelFor(key), s.id, h.kind, h.record, epoch.Bit(how.Unsure), epoch.Bit(how.Doubt), l.Lease}}
	reply, fail := s.server.Run(ctx, releaseScript, said.keys[:], said.args[:])
	if fail != nil {
		return false, fail
	}
	return reply.Code() == 1, nil
}
