// SPDX-License-Identifier: Apache-2.0

package adapthttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-go/pawl"
)

// Anonymous shows only the kind of each lease and the time since which it is held. It hides the holders, their
// reasons, the tokens and the waiters.
func Anonymous(_ *http.Request, info *pawl.Info) *pawl.Info {
	shown := &pawl.Info{Name: info.Name}
	for _, h := range info.Holders {
		shown.Holders = append(shown.Holders, pawl.Held{Acquired: h.Acquired, Shared: h.Shared, Slots: h.Slots})
	}
	return shown
}

// Everything shows all that is known, as "pawl show" does. Use it only if every client of the server may know it.
func Everything(_ *http.Request, info *pawl.Info) *pawl.Info { return info }

// schema is the schema number of "pawl show --json". The answer has all fields of that output except the store.
const schema = 1

type lockedJSON struct {
	Schema int      `json:"schema"`
	Lock   lockJSON `json:"lock"`
}

type lockJSON struct {
	Name    string        `json:"name"`
	Held    bool          `json:"held"`
	Token   pawl.Token    `json:"token"`
	Holders []pawl.Held   `json:"holders"`
	Waiters []pawl.Waiter `json:"waiters"`
}

// writeLocked answers with 423 Locked, as RFC 4918 defines it.
func writeLocked(w http.ResponseWriter, info *pawl.Info) {
	l := lockJSON{info.Name, true, info.Token, append([]pawl.Held{}, info.Holders...), append([]pawl.Waiter{}, info.Waiters...)}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusLocked)
	_ = json.NewEncoder(w).Encode(lockedJSON{schema, l}) // the client may have gone
}

// retryAfter sets Retry-After. It rounds up, because a client that comes back too early is refused again.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	if d <= 0 {
		d = time.Second
	}
	w.Header().Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
}
