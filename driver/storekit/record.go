// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"encoding/json"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// Record describes a holder or waiter for people. Stores keep it as JSON.
type Record struct {
	driver.Holder
	Why   string        `json:"why,omitempty"`
	Holds []driver.Hold `json:"holds,omitempty"` // while it waits
	Keeps bool          `json:"keeps,omitempty"` // see driver.Request; a store may look for it in the text
}

// ReadRecord reads a Record. It returns an empty one if text is not a Record.
func ReadRecord(text string) (r Record) {
	_ = json.Unmarshal([]byte(text), &r)
	return r
}

// String returns the JSON.
func (r Record) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "{}" // cannot happen: strings, a number and a bool
	}
	return string(b)
}

// Records makes the Records of requests. It keeps the last one, because the Records of one client differ only
// if a lease has a Why or its caller holds leases. The zero Records is ready for use.
type Records struct{ last atomic.Pointer[made] }

type made struct {
	holder *driver.Holder
	why    string
	keeps  bool
	text   string
}

// Of returns the Record of a request as JSON. keeps is the Record's Keeps.
func (r *Records) Of(req *driver.Request, keeps bool) string {
	if req.Holds != nil {
		return Record{*req.Holder, req.Why, req.Holds, keeps}.String()
	}
	m := r.last.Load()
	if m == nil || m.holder != req.Holder || m.why != req.Why || m.keeps != keeps {
		m = &made{req.Holder, req.Why, keeps, Record{*req.Holder, req.Why, nil, keeps}.String()}
		r.last.Store(m)
	}
	return m.text
}

// HowLost returns the error of a lease that the store no longer has. by is the Record of the client that
// broke the lease; if it is empty, nobody did, and the lease is gone.
func HowLost(by string) *driver.LostError {
	if by == "" {
		return &driver.LostError{Reason: driver.Gone}
	}
	lost := &driver.LostError{Reason: driver.Broken}
	var r Record
	if json.Unmarshal([]byte(by), &r) == nil {
		lost.By, lost.Why = &r.Holder, r.Why
	}
	return lost
}
