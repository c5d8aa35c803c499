// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxSet is how many names are asked for in one transaction.
const maxSet = 1000

// TryAcquireAll implements driver.Sets.
func (s *store) TryAcquireAll(ctx context.Context, reqs []*driver.Request) ([]driver.Grant, error) {
	if len(reqs) == 0 || len(reqs) > maxSet {
		return nil, fmt.Errorf("pglock: %d names in one step, 1 to %d can be: %w", len(reqs), maxSet, errors.ErrUnsupported)
	}
	var longest time.Duration
	all := make([]*attempt, len(reqs))
	for i, req := range reqs {
		if err := s.usable(ctx, req); err != nil {
			return nil, err
		}
		all[i] = s.attempt(req)
		longest = max(longest, req.TTL)
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b *attempt) int { return cmp.Compare(a.req.Name, b.req.Name) })
	row, sent, f := s.bound(ctx, s.sql.all, s.id,
		array(sorted, func(a *attempt) string { return a.req.Name }),
		array(sorted, func(a *attempt) string { return a.req.Lease }),
		array(sorted, func(a *attempt) string { return num(int64(a.kind)) }),
		array(sorted, func(a *attempt) string { return a.record }),
		array(sorted, func(a *attempt) string { return num(a.req.TTL.Microseconds()) }))
	if f == nil {
		if integer(row[0]) != 1 {
			return nil, s.refusedAll(sorted, row, longest)
		}
		tokens := strings.Split(strings.Trim(string(row[1]), "{}"), ",")
		if len(tokens) == len(sorted) {
			of := make(map[*attempt]uint64, len(sorted))
			for i, a := range sorted {
				of[a] = uint64(long([]byte(tokens[i])))
			}
			grants := make([]driver.Grant, len(all))
			for i, a := range all {
				grants[i] = a.granted(of[a], sent)
			}
			s.saw(sent, long(row[2]))
			return grants, nil
		}
		f = &failure{err: uncertain(fmt.Errorf("%s: the answer has %d tokens", s.where, len(tokens))), maybe: true}
	}
	var undo []driver.Grant
	for _, a := range all {
		a.doubt = f.maybe
		if g, _ := a.undo(f); g != nil {
			undo = append(undo, g)
		}
	}
	return undo, f.err
}

// refusedAll is the error for an answer other than 1.
func (s *store) refusedAll(sorted []*attempt, row [][]byte, longest time.Duration) error {
	a := sorted[min(max(integer(row[3])-1, 0), len(sorted)-1)]
	closed := time.Duration(long(row[4])) * time.Microsecond
	switch integer(row[0]) {
	case tooLong:
		return fmt.Errorf("pglock: %w", s.limit.tooLong(longest, closed))
	case tombstone:
		return errEnded
	case otherSlots:
		return &driver.SlotsError{Held: integer([]byte(strings.Trim(string(row[1]), "{}"))), Wanted: a.req.Slots}
	}
	holders := readHolders(row[5])
	if closed > 0 && len(holders) == 0 {
		return s.closedFor(closed)
	}
	return &driver.HeldError{Info: turn{holders: holders}.info(a.req.Name)}
}

// array writes values as an array of PostgreSQL.
func array[T any](all []T, of func(T) string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, a := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(escaper.Replace(of(a)))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
