// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
)

const (
	mostFlying = 2  // calls under way; there are 4 connections by default
	mostInCall = 64 // requests in a call
	batchWait  = 5 * time.Millisecond

	// A renewal can wait for a small part of its TTL. If the TTL is shorter than gatherTTL, it is sent at once.
	gather      = 50 * time.Millisecond
	gatherTTL   = 50 * gather
	maxRenewals = 500
)

// inBatches sets up the calls that take many requests. Such a call skips locked rows. Their requests are sent
// alone afterwards.
func (s *store) inBatches() {
	s.takes = storekit.Batch[*asking, reply]{Few: mostFlying, Most: mostInCall, Wait: batchWait, Alone: s.acquire, Together: s.acquireAll}
	s.releases = storekit.Batch[ending, reply]{Few: mostFlying, Most: mostInCall, Wait: batchWait, Alone: s.release, Together: s.releaseAll}
	s.renewals = storekit.Batch[renewing, reply]{Most: maxRenewals, Wait: gather, Alone: s.renew, Together: s.renewAll}
}

// acquireAll asks for several free names.
func (s *store) acquireAll(ctx context.Context, all []*asking) []storekit.Reply[reply] {
	lease := func(q *asking) string { return q.Lease }
	a, err := s.bound(ctx, requestTimeout, "acquire_many", s.id,
		array(all, func(q *asking) string { return q.Name }), array(all, lease),
		array(all, func(q *asking) string { return q.record }),
		array(all, func(q *asking) string { return num(q.TTL.Microseconds()) }))
	return replies(all, lease, a, err)
}

// releaseAll ends leases without waiters.
func (s *store) releaseAll(ctx context.Context, all []ending) []storekit.Reply[reply] {
	lease := func(q ending) string { return q.Lease }
	a, err := s.call(ctx, "release_many", array(all, func(q ending) string { return q.Name }), array(all, lease))
	return replies(all, lease, a, err)
}

// renewAll renews leases.
func (s *store) renewAll(ctx context.Context, all []renewing) []storekit.Reply[reply] {
	lease := func(q renewing) string { return q.Lease }
	longest := slices.MaxFunc(all, func(q, r renewing) int { return cmp.Compare(q.ttl, r.ttl) })
	a, err := s.bound(ctx, s.answerTime(longest.ttl), "renew_all",
		array(all, func(q renewing) string { return q.Name }), array(all, lease),
		array(all, func(q renewing) string { return num(int64(kindOf(q.Shared, q.Slots))) }),
		array(all, func(q renewing) string { return num(q.ttl.Microseconds()) }))
	return replies(all, lease, a, err)
}

// replies returns a reply for each request, from the row that ends with the id of its lease. If the server refuses
// the call, one request may be the cause. Then each request is sent alone.
func replies[Q any](all []Q, lease func(Q) string, a reply, err error) []storekit.Reply[reply] {
	of := make(map[string][][]byte, len(a.rows))
	for _, row := range a.rows {
		of[string(row[len(row)-1])] = row
	}
	var f *failure
	refused := errors.As(err, &f) && f.refused && !f.drop
	each := make([]storekit.Reply[reply], len(all))
	for i, q := range all {
		row := of[lease(q)]
		each[i] = storekit.Reply[reply]{Answer: reply{row: row, sent: a.sent}, Err: err, Alone: refused || err == nil && row == nil}
	}
	return each
}

// array returns values as a PostgreSQL array.
func array[T any](all []T, of func(T) string) string {
	var b strings.Builder
	for i, a := range all {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(`"` + escaper.Replace(of(a)) + `"`)
	}
	return b.String() + "}"
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
