// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

var (
	//go:embed lua/guard.lua
	guardLua string
	//go:embed lua/epoch.lua
	epochLua string
	//go:embed lua/mark.lua
	markLua string
	//go:embed lua/check.lua
	checkLua string

	// Each is the Lua function each, with which a script serves the requests of a batch:
	// an error of one request does not affect the others.
	//go:embed lua/each.lua
	Each string
)

// Whole returns script with functions inserted in place of its line that begins with
// "-- with". The part of the script before that line handles the ordinary case without
// the functions, since defining them on each call takes time.
func Whole(script, functions string) string {
	before, rest, found := strings.Cut(script, "\n-- with ")
	_, rest, ended := strings.Cut(rest, "\n")
	if !found || !ended {
		panic("a script without a line that begins with -- with")
	}
	return before + "\n" + functions + rest
}

// Server.texts ends with three scripts of the Server itself, after the scripts of Config.
func (s *Server) epochScript() int { return len(s.texts) - 3 }
func (s *Server) markScript() int  { return len(s.texts) - 2 }
func (s *Server) checkScript() int { return len(s.texts) - 1 }

// text returns the text of a script for one run of a server. The text contains the run_id
// of the server, and a restart empties the server's cache of scripts. So any other run
// answers NOSCRIPT to a call of this script. The text also contains the MaxTTL that the
// client knows, and grants nothing under another one.
func (s *Server) text(script int, b *Binding) string {
	publish := "PUBLISH"
	if s.Slots != nil {
		publish = "SPUBLISH" // its subscriptions are at the node that has the slot, so a script can count them; see hears in queue.lua
	}
	return whole(s.texts[script], b.boot, publish, Millis(b.limit), s.Layout.Version())
}

func whole(script, boot, publish, limit, layout string) string {
	return fmt.Sprintf("local boot, publish, limit, layout = '%s', '%s', '%s', '%s'\n", boot, publish, limit, layout) + guardLua + script
}

// Unbound returns the text of a script that belongs to no run of a server. For such a script there is no quarantine.
func Unbound(script string) string { return whole(script, "", "PUBLISH", "0", "") }

// Binding is the set of scripts as loaded for one run of the server.
type Binding struct {
	done chan struct{} // closed when the fields below are set
	err  error
	boot string // the server's run_id; empty if it is not guarded
	sha  []string
	// limit is the MaxTTL in the text of the scripts; 0 if the store had none.
	limit time.Duration
	// theirs is the layout of the store's record if clients with another Pattern have made it. used
	// says that there was a record. In a cluster both are unset.
	theirs string
	used   bool
	// Joined are the slots whose record has learnt this client's MaxTTL. Seeding says that a goroutine
	// makes the records of the other slots. Both are for masters of a cluster only.
	Joined  SlotSet
	Seeding atomic.Bool
	visited atomic.Bool // FirstVisit was called
	move    int         // the value of moves.count when b was made
}

// Bound returns the present Binding. If there is none, or it is stale or failed, Bound makes a new one: it asks which run
// of the server this is, and loads the scripts for that run.
func (s *Server) Bound(ctx context.Context, stale *Binding) (*Binding, error) {
	s.mu.Lock()
	b := s.binding
	if b == nil || b == stale || b.failed() {
		if err := s.astray.pause(driver.Now()); err != nil && b != nil && s.Slots == nil {
			s.mu.Unlock()
			rest(ctx)
			return nil, err
		}
		b = &Binding{done: make(chan struct{})}
		s.binding = b
		go s.bind(b, stale)
	}
	s.mu.Unlock()
	select {
	case <-b.done:
		return b, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// FirstVisit reports whether it is called for the first time on b.
func (b *Binding) FirstVisit() bool { return !b.visited.Swap(true) }

// Guarded reports whether the scripts are bound to a run: the server has a run_id that can be relied on.
func (b *Binding) Guarded() bool { return b.boot != "" }

func (b *Binding) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

// bind asks the server for its run, loads the scripts for that run, and begins or joins
// its epoch. It uses one connection for all this, since a connection ends with the run.
// With several connections it could load the scripts of one run into the cache of the
// next, and a client that has not noticed the restart would find them there.
func (s *Server) bind(b, stale *Binding) {
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.Timeout)
	defer cancel()
	before := s.left() // before Dedicate makes a new connection
	wire, done := s.Client.Dedicate()
	defer done()
	defer wire.Close()
	left, err := s.bindOn(ctx, wire, b, before)
	if err == nil && s.Slots != nil && stale != nil {
		_ = s.Slots.Rejoin(ctx, s, wire, b, stale) // if it fails for a slot, the next request in that slot joins its epoch
	}
	if conn.IsReplica(err) || err == conn.ErrReplica {
		s.astray.vain(err)
	}
	b.err = err
	close(b.done)
	s.TellClosed(b, left)
}

func (s *Server) bindOn(ctx context.Context, wire rueidis.CommandClient, b *Binding, before driver.Instant) (closed time.Duration, err error) {
	if b.boot, err = s.askServer(ctx, wire); err != nil {
		return 0, err
	}
	if len(s.Scripts) == 0 {
		return 0, nil
	}
	away := s.moved(b, before)
	b.sha = make([]string, len(s.texts))
	probe := s.Prefix + "check:" + s.ID
	first := []rueidis.Completed{b.load(s, wire, s.epochScript()), b.load(s, wire, s.checkScript()),
		b.Call(wire, s.checkScript(), nil, []string{probe + ":s", probe + ":z", s.Channel + s.ID})}
	looks := !s.Wrote() && b.boot != "" && s.Slots == nil // Look only reads, so send it before the check of the rights is done
	if looks {
		first = append(first, s.join(wire, b, Look, away))
	}
	replies := wire.DoMulti(ctx, first...)
	if err := loaded(replies[:2]); err != nil {
		return 0, err
	}
	if err := s.checked(replies[2]); err != nil {
		return 0, err
	}
	switch {
	case b.boot == "":
	case s.Slots != nil:
		b.limit = cmp.Or(s.Limit.now().TTL, s.Limit.Own())
	case looks && !s.Wrote(): // still not
		closed, err = s.joined(b, Look, replies[3])
	default:
		closed, err = s.joined(b, Join, wire.Do(ctx, s.join(wire, b, Join, away)))
	}
	if err != nil {
		return 0, err
	}
	return closed, b.loadRest(ctx, s, wire)
}

// load builds the command that loads a script.
func (b *Binding) load(s *Server, wire rueidis.CommandClient, script int) rueidis.Completed {
	text := s.text(script, b)
	b.sha[script] = digest(text)
	return wire.B().ScriptLoad().Script(text).Build()
}

func digest(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// loadRest loads the scripts that the server does not have. Mostly it has all, since another client
// has loaded them for this run. If the user has no right to SCRIPT EXISTS, loadRest loads all.
func (b *Binding) loadRest(ctx context.Context, s *Server, wire rueidis.CommandClient) error {
	var rest []int
	var digests []string
	for i := range s.texts {
		if b.sha[i] == "" {
			b.sha[i] = digest(s.text(i, b))
			rest, digests = append(rest, i), append(digests, b.sha[i])
		}
	}
	there, err := wire.Do(ctx, wire.B().ScriptExists().Sha1(digests...).Build()).AsIntSlice()
	if err != nil && conn.Refused(err) == nil {
		return err
	}
	var missing []rueidis.Completed
	for n, i := range rest {
		if n >= len(there) || there[n] != 1 {
			missing = append(missing, b.load(s, wire, i))
		}
	}
	return loaded(wire.DoMulti(ctx, missing...))
}

func loaded(replies []rueidis.RedisResult) error {
	for _, r := range replies {
		if err := r.Error(); err != nil {
			return conn.Lacking(err, "script|load")
		}
	}
	return nil
}

// checked returns an error unless the user may run all commands of the scripts: a
// script that fails half-way leaves inconsistent data.
func (s *Server) checked(r rueidis.RedisResult) error {
	missing, err := r.AsStrSlice()
	if err != nil && !strings.HasPrefix(err.Error(), "NOPERM") {
		return err
	}
	if err != nil {
		missing = []string{"evalsha"}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, name := range missing {
		if unknown, ok := strings.CutPrefix(name, "!"); ok {
			return fmt.Errorf("unknown command '%s'", strings.ToUpper(unknown))
		}
	}
	missing = slices.Compact(missing)
	for i := range missing {
		missing[i] = "+" + missing[i]
	}
	return fmt.Errorf("NOPERM: the user may not run, or not on these keys and channels, what redislock needs: "+
		"ACL SETUSER … ~%s* &%s* %s", s.Prefix, s.Channel, strings.Join(missing, " "))
}

// Call builds the call of a script.
func (b *Binding) Call(c rueidis.CommandClient, script int, keys, args []string) rueidis.Completed {
	return c.B().Evalsha().Sha1(b.sha[script]).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}
