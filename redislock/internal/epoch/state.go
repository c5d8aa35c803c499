// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// State is the state of a server. Asking for it changes nothing.
type State struct {
	Run    string        // empty if the server is not guarded
	Closed time.Duration // the remaining quarantine
	Term                 // the server's MaxTTL
}

// State asks the server for its state. keys are the KEYS of epoch.lua. With learn the client also learns the server's
// MaxTTL, which can keep it from being granted leases.
func (s *Server) State(ctx context.Context, keys []string, learn bool) (State, error) {
	read := readAnswer
	if learn {
		read = s.Told
	}
	var stale *Binding
	for range 3 {
		b, err := s.Bound(ctx, stale)
		if err != nil {
			return State{}, conn.NotBound(ctx, err).Err
		}
		if b.boot == "" || len(s.Scripts) == 0 {
			return State{}, nil
		}
		is, err := read(s.Do(ctx, s.Tell(b, s.Client, keys, s.Args(Look, "", false))))
		if ret := conn.Refused(err); ret != nil && ret.IsNoScript() {
			stale = b
			continue
		}
		if err != nil {
			return State{}, conn.NotBound(ctx, err).Err
		}
		if is.Theirs != "" {
			return State{}, s.differs(is.Theirs)
		}
		return State{b.boot, is.Closed, is.Term}, nil
	}
	return State{}, conn.Unavailable(errors.New("the server forgets its scripts again and again"))
}

// Info describes the State for people.
func (s State) Info() *driver.StoreInfo {
	info := &driver.StoreInfo{MaxTTL: s.TTL, SetBy: s.Holder(), Closed: s.Closed}
	if s.Closed > 0 {
		info.Do = "if no lease from before is held any more, redislock.Bless (pawl bless) opens it at once"
		info.Why = "it has restarted, has lost its data or is another server, and may have forgotten leases"
	}
	return info
}
