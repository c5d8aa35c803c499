// SPDX-License-Identifier: Apache-2.0

package adapthttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Anonymous tells of the holders only what kind of lease they have and since when.
// It keeps back who and what for they are, the tokens, and the waiters.
func Anonymous(_ *http.Request, info *pawl.Info) *pawl.Info {
	shown := &pawl.Info{Name: info.Name}
	for _, h := range info.Holders {
		shown.Holders = append(shown.Holders, driver.Held{Acquired: h.Acquired, Shared: h.Shared, Slots: h.Slots})
	}
	return shown
}

// Everything tells all that is known, as "pawl show" does. It is for servers whose
// every client may know it.
func Everything(_ *http.Request, info *pawl.Info) *pawl.Info { return info }

// schema is that of "pawl show --json", less the store, whose address is nobody's
// business here: fields may be added, none is renamed, removed or given another
// meaning while it is 1. A test of the command compares the two.
const schema = 1

type lockedJSON struct {
	Schema int      `json:"schema"`
	Lock   lockJSON `json:"lock"`
}

type lockJSON struct {
	Name    string       `json:"name"`
	Held    bool         `json:"held"`
	Token   pawl.Token   `json:"token"`
	Holders []holderJSON `json:"holders"`
	Waiters []waiterJSON `json:"waiters"`
}

type personJSON struct {
	Who     string `json:"who,omitempty"`
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Space   string `json:"space,omitempty"`
	Command string `json:"command,omitempty"`
	Why     string `json:"why,omitempty"`
}

type holderJSON struct {
	personJSON
	Lease    string     `json:"lease"`
	Token    pawl.Token `json:"token,omitempty"`
	Acquired time.Time  `json:"acquired,omitzero"`
	Renewed  time.Time  `json:"renewed,omitzero"`
	Expires  time.Time  `json:"expires,omitzero"`
	Orphan   bool       `json:"orphan,omitempty"`
	Shared   bool       `json:"shared,omitempty"`
	Slots    int        `json:"slots,omitempty"`

	Transaction *pawl.Transaction `json:"transaction,omitempty"`
}

type waiterJSON struct {
	personJSON
	Lease  string      `json:"lease,omitempty"`
	Since  time.Time   `json:"since,omitzero"`
	Shared bool        `json:"shared,omitempty"`
	Slots  int         `json:"slots,omitempty"`
	Holds  []pawl.Hold `json:"holds,omitempty"`
}

func person(h pawl.Holder, why string) personJSON {
	return personJSON{Who: h.Who, User: h.User, Host: h.Host, PID: h.PID, Space: h.Space, Command: h.Command, Why: why}
}

// writeLocked answers 423, RFC 4918.
func writeLocked(w http.ResponseWriter, info *pawl.Info) {
	l := lockJSON{Name: info.Name, Held: true, Token: info.Token, Holders: []holderJSON{}, Waiters: []waiterJSON{}}
	for _, h := range info.Holders {
		l.Holders = append(l.Holders, holderJSON{person(h.Holder, h.Why), h.Lease, h.Token,
			h.Acquired, h.Renewed, h.Expires, h.Orphan, h.Shared, h.Slots, h.Transaction})
	}
	for _, v := range info.Waiters {
		l.Waiters = append(l.Waiters, waiterJSON{person(v.Holder, v.Why), v.Lease, v.Since, v.Shared, v.Slots, v.Holds})
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusLocked)
	_ = json.NewEncoder(w).Encode(lockedJSON{schema, l}) // the caller may have gone
}

// retryAfter rounds up: a caller that comes back too early is refused again.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	if d <= 0 {
		d = time.Second
	}
	w.Header().Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
}
