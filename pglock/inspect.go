// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// shownLease is a lease or a waiter as pawl.look and pawl.holders return it. Times are by the server's clock.
type shownLease struct {
	Lease  string `json:"lease"`
	Token  uint64 `json:"token"`
	Until  int64  `json:"until"`
	Since  int64  `json:"since"`
	Record string `json:"record"`
	Kind   int    `json:"kind"`
	// Tx is the transaction that keeps the lease after it has expired.
	Tx *struct {
		PID         int    `json:"pid"`
		Application string `json:"application"`
		Since       int64  `json:"since"`
	} `json:"tx"`
}

// shownName is a name as pawl.look returns it.
type shownName struct {
	Name    string       `json:"name"`
	Token   uint64       `json:"token"`
	At      int64        `json:"at"`
	Holders []shownLease `json:"holders"`
	Waiters []shownLease `json:"waiters"`
}

func (l shownLease) held() driver.Held {
	r := storekit.ReadRecord(l.Record)
	held := driver.Held{
		Holder: r.Holder, Lease: l.Lease, Token: driver.Token(l.Token), Why: r.Why, Keeps: r.Keeps,
		Acquired: time.UnixMicro(l.Since), Expires: time.UnixMicro(l.Until), Shared: l.Kind == shared, Slots: max(l.Kind, 0),
	}
	if l.Tx != nil {
		held.Transaction = &driver.Transaction{PID: l.Tx.PID, Application: l.Tx.Application}
		if l.Tx.Since != 0 {
			held.Transaction.Since = time.UnixMicro(l.Tx.Since)
		}
	}
	return held
}

func readHolders(b []byte) (holders []driver.Held) {
	var some []shownLease
	_ = json.Unmarshal(b, &some) // on an error no holders are shown
	for _, l := range some {
		holders = append(holders, l.held())
	}
	return holders
}

// Inspect implements driver.Store.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	infos, err := s.look(ctx, name, "")
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return &driver.Info{Name: name, Holders: []driver.Held{}}, nil
	}
	return infos[0], nil
}

// List implements driver.Store.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	infos, err := s.look(ctx, "", prefix)
	return slices.DeleteFunc(infos, func(i *driver.Info) bool { return len(i.Holders)+len(i.Waiters) == 0 }), err
}

// look returns the state of a name, or if name is empty, of the names that begin with prefix.
func (s *store) look(ctx context.Context, name, prefix string) ([]*driver.Info, error) {
	a, err := s.call(ctx, "look", name, prefix)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	var infos []*driver.Info
	for _, row := range a.rows {
		var n shownName
		if err := json.Unmarshal(row[0], &n); err != nil {
			return nil, fmt.Errorf("%s: %w", s.where, err)
		}
		info := &driver.Info{Name: n.Name, Token: driver.Token(n.Token), Holders: []driver.Held{}}
		for _, l := range n.Holders {
			h := l.held()
			h.Expires = now.Add(h.Expires.Sub(time.UnixMicro(n.At))) // the clocks of server and client may differ
			info.Holders = append(info.Holders, h)
			info.Token = max(info.Token, driver.Token(l.Token))
		}
		for _, l := range n.Waiters {
			r := storekit.ReadRecord(l.Record)
			info.Waiters = append(info.Waiters, driver.Waiter{
				Holder: r.Holder, Lease: l.Lease, Since: time.UnixMicro(l.Since), Why: r.Why, Holds: r.Holds, Shared: l.Kind == shared, Slots: max(l.Kind, 0),
			})
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Break implements driver.Store.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	a, err := s.call(ctx, "break", name, lease, claimMicros, storekit.Record{Holder: *cmp.Or(by, &driver.Holder{}), Why: why}.String())
	if err != nil || integer(a.row[0]) == 1 {
		return err
	}
	holders := readHolders(a.row[1])
	if len(holders) == 0 {
		return driver.ErrReleased
	}
	info := &driver.Info{Name: name, Holders: holders}
	for _, h := range holders {
		info.Token = max(info.Token, h.Token)
	}
	return &driver.HeldError{Info: info}
}

// Describe implements driver.Store.
func (s *store) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	a, err := s.bound(ctx, requestTimeout, "describe")
	if err != nil {
		return nil, err
	}
	info := &driver.StoreInfo{MaxTTL: micros(a.row[1]), SetBy: storekit.Signed(string(a.row[2]))}
	if left := micros(a.row[3]); left > 0 {
		info.Closed, info.Why = left, string(a.row[4])
		info.Do = "if no lease from before is held any more, pglock.Bless (pawl bless) opens it at once"
	}
	return info, nil
}
