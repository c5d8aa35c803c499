// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// record is what people are shown of a holder: the same as in package redislock.
type record struct {
	driver.Holder
	Why string `json:"why,omitempty"`
}

func newRecord(h *driver.Holder, why string) string {
	if h == nil {
		h = &driver.Holder{}
	}
	b, err := json.Marshal(record{*h, why})
	if err != nil {
		return "{}" // cannot happen: strings and an int
	}
	return string(b)
}

// readNews reads who broke a lease and why.
func readNews(news string) *driver.LostError {
	if news == "" {
		return &driver.LostError{Reason: driver.Gone}
	}
	lost := &driver.LostError{Reason: driver.Broken}
	var r record
	if json.Unmarshal([]byte(news), &r) == nil {
		lost.By, lost.Why = &r.Holder, r.Why
	}
	return lost
}

// largest returns the lease that has the most of locks, a lock of it, and how many
// that are.
func largest(locks []Lock) (Lock, int) {
	var best Lock
	most := 0
	for i, l := range locks {
		n := 0
		for _, o := range locks[i:] {
			if o.Lease == l.Lease {
				n++
			}
		}
		if l.Lease != "" && n > most {
			best, most = l, n
		}
	}
	// Its token is the largest that a node has stored for it: a first round may have
	// left a smaller one behind.
	for _, l := range locks {
		if l.Lease == best.Lease {
			best.Token, best.Left = max(best.Token, l.Token), max(best.Left, l.Left)
		}
	}
	return best, most
}

// info describes a name that some nodes say is locked.
func info(name string, locks []Lock) *driver.Info {
	i := &driver.Info{Name: name, Holders: []driver.Held{}}
	for _, l := range locks {
		i.Token = max(i.Token, l.Floor, l.Token)
	}
	if l, n := largest(locks); n > 0 {
		i.Holders = append(i.Holders, l.held(time.Now()))
	}
	return i
}

// held describes the holder of a lock.
func (l Lock) held(now time.Time) driver.Held {
	h := driver.Held{Lease: l.Lease, Token: l.Token, Acquired: l.Granted}
	if l.Record == "" {
		h.Who = "a client of another library"
	} else {
		var r record
		_ = json.Unmarshal([]byte(l.Record), &r) // what cannot be read is shown as nobody
		h.Lease, _, _ = strings.Cut(l.Lease, ".")
		h.Holder, h.Why = r.Holder, r.Why
	}
	if l.Left >= 0 {
		h.Expires = now.Add(l.Left)
	}
	return h
}
