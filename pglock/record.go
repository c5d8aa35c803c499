// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"encoding/json"

	"github.com/pawl-go/pawl/driver"
)

// known is the last record that was made: those of one client are the same unless a
// lease has a Why, or its caller holds others.
type known struct {
	holder *driver.Holder
	why    string
	keeps  bool
	text   string
}

// record describes a holder or waiter for people.
type record struct {
	driver.Holder
	Why   string        `json:"why,omitempty"`
	Holds []driver.Hold `json:"holds,omitempty"` // while it waits
	Keeps bool          `json:"keeps,omitempty"` // see Recalls; functions look for it in the text
}

func (s *store) newRecord(req *driver.Request) string {
	keeps := req.Keeps && !s.ear.deaf() // else others would ask in vain
	if req.Holds != nil {
		return record{*req.Holder, req.Why, req.Holds, keeps}.text()
	}
	k := s.known.Load()
	if k == nil || k.holder != req.Holder || k.why != req.Why || k.keeps != keeps {
		k = &known{req.Holder, req.Why, keeps, record{*req.Holder, req.Why, nil, keeps}.text()}
		s.known.Store(k)
	}
	return k.text
}

func (r record) text() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "{}" // cannot happen: strings and an int
	}
	return string(b)
}

func readRecord(s string) (r record) {
	_ = json.Unmarshal([]byte(s), &r) // an unreadable record is shown as empty
	return r
}
