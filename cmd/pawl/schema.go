// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/pawl-go/pawl"
)

// The JSON that ls and show print. It is separate from the types of package
// driver, so that it stays what it is when they change: fields may be added,
// none is renamed, removed or given another meaning while schema is 1.
const schema = 1

type lsJSON struct {
	Schema int        `json:"schema"`
	Store  string     `json:"store"`
	Locks  []lockJSON `json:"locks"`
	State  *stateJSON `json:"state,omitempty"`
}

type showJSON struct {
	Schema int        `json:"schema"`
	Store  string     `json:"store"`
	Lock   lockJSON   `json:"lock"`
	State  *stateJSON `json:"state,omitempty"`
}

type lockJSON struct {
	Name    string       `json:"name"`
	Held    bool         `json:"held"`
	Token   uint64       `json:"token"` // the largest so far
	Holders []holderJSON `json:"holders"`
	Waiters []waiterJSON `json:"waiters"` // first come first
}

type personJSON struct {
	Who     string `json:"who,omitempty"`
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	Why     string `json:"why,omitempty"`
}

type holderJSON struct {
	personJSON
	Lease    string    `json:"lease"`
	Token    uint64    `json:"token,omitempty"`
	Acquired time.Time `json:"acquired,omitzero"`
	Renewed  time.Time `json:"renewed,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Orphan   bool      `json:"orphan,omitempty"` // the process has ended, what it started goes on
	Shared   bool      `json:"shared,omitempty"`
	Slots    int       `json:"slots,omitempty"` // how many the lock has, if this is one of them
}

type waiterJSON struct {
	personJSON
	Since  time.Time `json:"since,omitzero"`
	Shared bool      `json:"shared,omitempty"`
	Slots  int       `json:"slots,omitempty"`
}

func person(h pawl.Holder, why string) personJSON {
	return personJSON{Who: h.Who, User: h.User, Host: h.Host, PID: h.PID, Command: h.Command, Why: why}
}

func lock(info *pawl.Info) lockJSON {
	l := lockJSON{
		Name:    info.Name,
		Held:    len(info.Holders) > 0,
		Token:   info.Token,
		Holders: []holderJSON{},
		Waiters: []waiterJSON{},
	}
	for _, h := range info.Holders {
		l.Holders = append(l.Holders, holderJSON{person(h.Holder, h.Why), h.Lease, h.Token,
			h.Acquired, h.Renewed, h.Expires, h.Orphan, h.Shared, h.Slots})
	}
	for _, w := range info.Waiters {
		l.Waiters = append(l.Waiters, waiterJSON{person(w.Holder, w.Why), w.Since, w.Shared, w.Slots})
	}
	return l
}
