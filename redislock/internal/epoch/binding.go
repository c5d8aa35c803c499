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

	// Each is the Lua function that serves every request of a batch, so that the error
	// of one does not affect the others.
	//go:embed lua/each.lua
	Each string
)

// Whole returns a script with the functions that its rest needs in the place of its
// line that begins with "-- with". The part before that line serves the ordinary case
// without these functions: making functions takes time.
func Whole(script, functions string) string {
	before, rest, found := strings.Cut(script, "\n-- with ")
	_, rest, ended := strings.Cut(rest, "\n")
	if !found || !ended {
		panic("a script without a line that begins with -- with")
	}
	return before + "\n" + functions + rest
}

// The Server's own scripts follow the scripts of Config.
func (s *Server) epochScript() int { return len(s.texts) - 3 }
func (s *Server) markScript() int  { return len(s.texts) - 2 }
func (s *Server) checkScript() int { return len(s.texts) - 1 }

// text returns the text of a script for one run of a server. A restart empties the
// server's cache of scripts, and another server has another id. So any other run
// refuses what is loaded for this one, with NOSCRIPT. For another MaxTTL the text is
// another too: each grant is made under the one that the client knows.
func (s *Server) text(script int, b *Binding) string {
	publish := "PUBLISH"
	if s.Slots != nil {
		publish = "SPUBLISH" // what PUBLISH returns counts one node's only
	}
	return fmt.Sprintf("local boot, publish, limit, layout = '%s', '%s', '%s', '%s'\n",
		b.boot, publish, Millis(b.limit), s.Layout.Version()) +
		guardLua + s.texts[script]
}

// Binding is the scripts as loaded for one run of the server.
type Binding struct {
	done  chan struct{} // closed when the fields below are set
	err   error
	boot  string // the server's run_id; empty if it is not guarded
	sha   []string
	calls []call // of the scripts that take many requests
	// limit is the MaxTTL for which the scripts were made; 0 if the store had none.
	limit time.Duration
	// theirs is the layout of the store's record if that is of clients with other keys, and
	// used says that there was a record at all. Not of a cluster.
	theirs string
	used   bool
	// Joined are the slots whose record knows our MaxTTL. Seeding says that the records of the other slots
	// are being made. Both are used for masters of a cluster only.
	Joined  SlotSet
	Seeding atomic.Bool
	came    atomic.Bool
	move    int // the number of times that the run had changed
}

// Bound returns the present Binding, or a new one if that is stale: it learns which run of the server this is
// and loads the scripts for it.
func (s *Server) Bound(ctx context.Context, stale *Binding) (*Binding, error) {
	s.mu.Lock()
	b := s.binding
	if b == nil || b == stale || b.failed() {
		if err := s.astray.pause(driver.Now()); err != nil && b != nil && s.Slots == nil {
			s.mu.Unlock()
			rest(ctx)
			return nil, err
		}
		b = &Binding{done: make(chan struct{}), calls: make([]call, len(s.Scripts))}
		for i := range b.calls {
			b.calls[i] = call{s, b, i}
		}
		s.binding = b
		go s.bind(b, stale)
	}
	s.mu.Unlock()
	select {
	case <-b.done:
		return b, b.err
	default:
	}
	select {
	case <-b.done:
		return b, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Comes reports whether it is called for the first time.
func (b *Binding) Comes() bool { return !b.came.Swap(true) }

// Guarded reports whether the scripts are bound to a run that can be told from others.
func (b *Binding) Guarded() bool { return b.boot != "" }

func (b *Binding) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

// bind learns which run of which server this is, loads the scripts for it, and begins
// or joins its epoch. It does so on one connection, which does not outlive the server:
// otherwise scripts for one run could get into the cache of the next, where a client
// that has not noticed the restart would find them.
func (s *Server) bind(b, stale *Binding) {
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.Timeout)
	defer cancel()
	before := s.left() // there is a new connection
	wire, done := s.Client.Dedicate()
	defer done()
	defer wire.Close()
	left, err := s.bindOn(ctx, wire, b, before)
	if err == nil && s.Slots != nil && stale != nil {
		s.Slots.JoinAgain(ctx, s, wire, b, stale)
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
	looks := !s.Wrote() && b.boot != "" && s.Slots == nil // and changes nothing, so the rights need not be known
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
	case looks && !s.Wrote(): // nor has it asked for a grant meanwhile
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

// loadRest loads the scripts that the server does not have. Mostly another client has loaded
// them for this run before. A user who may not ask for that loads all.
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
