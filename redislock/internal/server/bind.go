// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

var (
	//go:embed lua/guard.lua
	guardLua string
	//go:embed lua/epoch.lua
	epochLua string
	//go:embed lua/mark.lua
	markLua string

	// Each is what scripts need that take many requests, but for the ordinary case.
	//go:embed lua/each.lua
	Each string
)

// The Server's own scripts follow those of Config.
func (s *Server) epochScript() int { return len(s.texts) - 3 }
func (s *Server) markScript() int  { return len(s.texts) - 2 }
func (s *Server) checkScript() int { return len(s.texts) - 1 }

// text returns the text of a script for one run of a server. A restart empties
// the server's cache of scripts, and another server has another id, so that what
// is loaded for this run is refused by any other, with NOSCRIPT.
// For another MaxTTL, or another set of nodes, there is another text, too: each grant is one under what the
// client knows of them.
func (s *Server) text(script int, b *binding) string {
	publish := "PUBLISH"
	if s.cluster != nil {
		publish = "SPUBLISH" // what PUBLISH returns counts one node's only
	}
	return fmt.Sprintf("local boot, publish, limit, self, set = '%s', '%s', '%s', '%s', '%s'\n", b.boot, publish, Millis(b.limit), b.sets.Self, b.set) +
		guardLua + s.texts[script]
}

// binding is the scripts as loaded for one run of the server.
type binding struct {
	done chan struct{} // closed when the fields below are set
	err  error
	boot string // the server's run_id; empty if it is not guarded
	sha  []string
	// limit is the MaxTTL for which the scripts were made; 0 if none was to be seen.
	limit time.Duration
	// sets is the record of the set of nodes, and set the one for which the scripts were made. Only of a node of Redlock.
	sets Sets
	set  string
	// joined are the slots whose epoch knows our MaxTTL. Only of a master of a Cluster.
	joined  slotSet
	seeding atomic.Bool // the epochs of its other slots are being begun
	move    int         // the number of times that the run had changed
}

// Bind learns which run of the server this is and loads the scripts for it, unless
// that has been done. Nothing needs it but who wants to know at once whether the
// server will do.
func (s *Server) Bind(ctx context.Context) error {
	if _, err := s.bound(ctx, nil); err != nil {
		return NotBound(ctx, err).Err
	}
	return nil
}

// bound returns the present binding, or a new one if that is stale.
func (s *Server) bound(ctx context.Context, stale *binding) (*binding, error) {
	s.mu.Lock()
	b := s.binding
	if b == nil || b == stale || b.failed() {
		if err := s.astray.pause(driver.Now()); err != nil && b != nil && s.cluster == nil {
			s.mu.Unlock()
			return nil, err
		}
		b = &binding{done: make(chan struct{})}
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

func (b *binding) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

// bind learns which run of which server this is, loads the scripts for it, and
// sees to its epoch. All on one connection, which does not outlive the server:
// otherwise scripts for one run could come into the cache of the next, where a
// client that has not noticed the restart would find them.
func (s *Server) bind(b, stale *binding) {
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.Timeout)
	defer cancel()
	before := s.left() // there is a new connection
	conn, done := s.client.Dedicate()
	defer done()
	defer conn.Close()
	left, err := s.bindOn(ctx, conn, b, before)
	if err == nil && s.cluster != nil && stale != nil {
		s.joinAgain(ctx, conn, b, stale)
	}
	if ret := refused(err); ret != nil && unwritable(ret) || err == errReplica {
		s.astray.vain(err)
	}
	b.err = err
	close(b.done)
	s.tellClosed(b, left)
	if err == nil && s.tellMoved() && s.Moved != nil {
		s.Moved(s)
	}
}

func (s *Server) bindOn(ctx context.Context, conn rueidis.CommandClient, b *binding, before driver.Instant) (closed time.Duration, err error) {
	if b.boot, err = s.askServer(ctx, conn); err != nil {
		return 0, err
	}
	if len(s.Scripts) == 0 {
		return 0, nil
	}
	away := s.moved(b, before)
	b.sha = make([]string, len(s.texts))
	probe := s.Prefix + "check:" + s.ID
	replies := conn.DoMulti(ctx, b.load(s, conn, s.epochScript()), b.load(s, conn, s.checkScript()),
		b.call(conn, s.checkScript(), nil, []string{probe + ":s", probe + ":z", s.Channel + s.ID}))
	if err := loaded(replies[:2]); err != nil {
		return 0, err
	}
	if err := s.checked(replies[2]); err != nil {
		return 0, err
	}
	switch {
	case b.boot == "":
	case s.cluster != nil:
		b.limit = cmp.Or(s.Limit.now().TTL, s.Limit.Own())
	default:
		if closed, err = s.epoch(ctx, conn, b, s.mode(), away); err != nil {
			return 0, err
		}
	}
	var rest []rueidis.Completed
	for i := range s.texts {
		if b.sha[i] == "" {
			rest = append(rest, b.load(s, conn, i))
		}
	}
	return closed, loaded(conn.DoMulti(ctx, rest...))
}

// load builds the command that loads a script.
func (b *binding) load(s *Server, conn rueidis.CommandClient, script int) rueidis.Completed {
	text := s.text(script, b)
	b.sha[script] = fmt.Sprintf("%x", sha1.Sum([]byte(text)))
	return conn.B().ScriptLoad().Script(text).Build()
}

func loaded(replies []rueidis.RedisResult) error {
	for _, r := range replies {
		if err := r.Error(); err != nil {
			return Lacking(err, "script|load")
		}
	}
	return nil
}

// checked says whether the user may run what is in the scripts: a script that
// fails half-way leaves things in disorder.
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
	for i := range missing {
		missing[i] = "+" + missing[i]
	}
	return fmt.Errorf("NOPERM: the user may not run, or not on these keys and channels, what redislock needs: "+
		"ACL SETUSER … ~%s* &%s* %s", s.Prefix, s.Channel, strings.Join(missing, " "))
}

// Lacking names the right that is missing if err is about that.
func Lacking(err error, right string) error {
	if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
		return fmt.Errorf("%w: give the user the right +%s", err, right)
	}
	return err
}

func (b *binding) call(c rueidis.CommandClient, script int, keys, args []string) rueidis.Completed {
	return c.B().Evalsha().Sha1(b.sha[script]).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// RunOn is Run that returns the id of the run of the server that has answered, and not the instant.
func (s *Server) RunOn(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, boot string, fail *Failure) {
	reply, _, b, fail := s.run(ctx, script, keys, args)
	if b != nil {
		boot = b.boot
	}
	return reply, boot, fail
}

// Run runs a script and returns its reply, whose first element is a number, and
// the instant before it was sent. Missing scripts are loaded, and a missing epoch
// is begun, on the way. With a Failure the reply is not to be believed.
func (s *Server) Run(ctx context.Context, script int, keys, args []string) ([]rueidis.RedisMessage, driver.Instant, *Failure) {
	reply, since, _, fail := s.run(ctx, script, keys, args)
	return reply, since, fail
}

func (s *Server) run(ctx context.Context, script int, keys, args []string) ([]rueidis.RedisMessage, driver.Instant, *binding, *Failure) {
	var stale *binding
	var fail *Failure
	for tries, refused := 0, 0; tries < 5; tries++ {
		b, err := s.bound(ctx, stale)
		if err != nil {
			return nil, 0, nil, NotBound(ctx, err)
		}
		if again, err := s.grants(b, script); err != nil {
			return nil, 0, nil, &Failure{Err: err, Lasting: true}
		} else if again {
			stale, fail = b, forgets()
			continue
		}
		made, since := s.made(), driver.Now()
		reply, err := s.ask(ctx, b, script, keys, args)
		switch {
		case err == nil && len(reply) > 0 && Code(reply) == beyondLimit:
			return nil, 0, nil, s.beyond(b, reply)
		case err == nil && len(reply) > 0 && Code(reply) != noEpoch:
			s.astray.useful()
			return reply, since, b, s.stale(b)
		case err == nil:
			stale, fail = b, forgets()
		case !leadsElsewhere(err):
			return nil, 0, nil, classify(ctx, err)
		case refused == 0 && stale == nil:
			stale, fail = b, NotBound(ctx, err)
			refused++
		default: // b is for a master, or it would not be there
			s.astray.vain(errTwoServers)
			s.drop(made)
			stale, fail = nil, forgets()
		}
	}
	return nil, 0, nil, fail
}

func forgets() *Failure {
	return &Failure{Err: Unavailable(errors.New("the server forgets its scripts or its data again and again: is it one server?"))}
}

// What scripts return that could not do what they were asked.
const (
	noEpoch     = -1
	beyondLimit = -5
)

// grants is called before each script. If that may grant something, this participant writes:
// from now on it begins epochs. grants returns why it must not, or whether b must be made anew.
func (s *Server) grants(b *binding, script int) (again bool, err error) {
	if !s.Scripts[script].Grants || b.boot == "" {
		return false, nil
	}
	if err := s.Limit.agree(); err != nil {
		return false, err
	}
	if first := !s.writes.Swap(true); first && s.cluster == nil && (s.hasMoved() || s.Limit.doubts()) {
		return true, nil // the server was not told what it should know
	}
	if s.Group != nil {
		if again, err := s.Group.agree(s.Node, b.sets); again || err != nil {
			return again, err
		}
		if b.set != s.Group.set() {
			return true, nil
		}
	}
	return b.limit == 0 || b.limit != cmp.Or(s.Limit.now().TTL, b.limit), nil
}

// beyond is the Failure of a script that found the TTL to be too long.
func (s *Server) beyond(b *binding, reply []rueidis.RedisMessage) *Failure {
	ttl := int64(0)
	if len(reply) > 1 {
		ttl, _ = reply[1].AsInt64()
	}
	t := s.Limit.now()
	t.TTL = b.limit
	return &Failure{Err: tooLong(time.Duration(ttl)*time.Millisecond, t), Lasting: true}
}

// Code returns the first element of a script's reply.
func Code(reply []rueidis.RedisMessage) int64 {
	n, _ := reply[0].AsInt64()
	return n
}
