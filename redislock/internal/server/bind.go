// SPDX-License-Identifier: Apache-2.0

package server

import (
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
func (s *Server) text(script int, boot string) string {
	publish := "PUBLISH"
	if s.cluster != nil {
		publish = "SPUBLISH" // what PUBLISH returns counts one node's only
	}
	return fmt.Sprintf("local boot, publish = '%s', '%s'\n", boot, publish) + guardLua + s.texts[script]
}

// binding is the scripts as loaded for one run of the server.
type binding struct {
	done chan struct{} // closed when the fields below are set
	err  error
	boot string // the server's run_id; empty if it is not guarded
	sha  []string
	// joined are the slots whose epoch knows our MaxTTL. Only of a master of a Cluster.
	joined  slotSet
	seeding atomic.Bool // the epochs of its other slots are being begun
	move    int         // the number of times that the run had changed

	toldClosed driver.Instant // when it was told last that nothing is granted; Server.mu guards it
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
	b.err = err
	close(b.done)
	s.tellClosed(b, left)
}

func (s *Server) bindOn(ctx context.Context, conn rueidis.CommandClient, b *binding, before driver.Instant) (closed time.Duration, err error) {
	if b.boot, err = s.askServer(ctx, conn); err != nil {
		return 0, err
	}
	if len(s.Scripts) == 0 {
		return 0, nil
	}
	away := s.moved(b, before)
	var load []rueidis.Completed
	for i := range s.texts {
		text := s.text(i, b.boot)
		b.sha = append(b.sha, fmt.Sprintf("%x", sha1.Sum([]byte(text))))
		load = append(load, conn.B().ScriptLoad().Script(text).Build())
	}
	probe := s.Prefix + "check:" + s.ID
	load = append(load, b.call(conn, s.checkScript(), nil, []string{probe + ":s", probe + ":z", s.Channel + s.ID}))
	replies := conn.DoMulti(ctx, load...)
	for _, r := range replies[:len(s.texts)] {
		if err := r.Error(); err != nil {
			return 0, Lacking(err, "script|load")
		}
	}
	if err := s.checked(replies[len(s.texts)]); err != nil || b.boot == "" || s.cluster != nil {
		return 0, err
	}
	closed, err = s.epoch(ctx, conn, b, false, away)
	if err == nil {
		s.arrived()
	}
	return closed, err
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
	for range 3 {
		b, err := s.bound(ctx, stale)
		if err != nil {
			return nil, 0, nil, NotBound(ctx, err)
		}
		since := driver.Now()
		reply, err := s.ask(ctx, b, script, keys, args)
		if err == nil {
			if len(reply) > 0 && Code(reply) != noEpoch {
				return reply, since, b, s.stale(b)
			}
		} else if ret, ok := rueidis.IsRedisErr(err); !ok || !ret.IsNoScript() {
			return nil, 0, nil, classify(ctx, err)
		}
		stale = b
	}
	return nil, 0, nil, &Failure{Err: Unavailable(errors.New("the server forgets its scripts or its data again and again"))}
}

const noEpoch = -1

// Code returns the first element of a script's reply.
func Code(reply []rueidis.RedisMessage) int64 {
	n, _ := reply[0].AsInt64()
	return n
}
