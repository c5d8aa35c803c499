// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

var (
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/pass.lua
	passLua string
	//go:embed lua/break.lua
	breakLua string
	//go:embed lua/epoch.lua
	epochLua string
	//go:embed lua/check.lua
	checkLua string
)

type script int

const (
	acquireScript script = iota
	extendScript
	releaseScript
	passScript
	breakScript
	epochScript
	checkScript
	scriptCount
)

var scripts = [scriptCount]*string{&acquireLua, &extendLua, &releaseLua, &passLua, &breakLua, &epochLua, &checkLua}

// text returns the text of a script for one run of a server. A restart empties
// the server's cache of scripts, and another server has another id, so that what
// is loaded for this run is refused by any other, with NOSCRIPT.
func (sc script) text(boot string) string {
	return fmt.Sprintf("local boot = '%s'\n", boot) + commonLua + *scripts[sc]
}

// binding is the scripts as loaded for one run of the server.
type binding struct {
	done chan struct{} // closed when the fields below are set
	err  error
	boot string // the server's run_id; empty if it is not guarded
	sha  [scriptCount]string
}

// bound returns the present binding, or a new one if that is stale.
func (s *store) bound(ctx context.Context, stale *binding) (*binding, error) {
	s.mu.Lock()
	b := s.binding
	if b == nil || b == stale || b.failed() {
		b = &binding{done: make(chan struct{})}
		s.binding = b
		go s.bind(b)
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
func (s *store) bind(b *binding) {
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.timeout)
	defer cancel()
	conn, done := s.client.Dedicate()
	defer done()
	defer conn.Close()
	left, err := s.bindOn(ctx, conn, b)
	b.err = err
	close(b.done)
	s.tellClosed(left)
}

func (s *store) bindOn(ctx context.Context, conn rueidis.CommandClient, b *binding) (closed time.Duration, err error) {
	if b.boot, err = s.askServer(ctx, conn); err != nil {
		return 0, err
	}
	var load []rueidis.Completed
	for i := range scriptCount {
		text := i.text(b.boot)
		b.sha[i] = fmt.Sprintf("%x", sha1.Sum([]byte(text)))
		load = append(load, conn.B().ScriptLoad().Script(text).Build())
	}
	probe := s.prefix + "check:" + s.id
	load = append(load, b.call(conn, checkScript, []string{probe + ":s", probe + ":z"}, []string{s.channel + s.id}))
	replies := conn.DoMulti(ctx, load...)
	for _, r := range replies[:scriptCount] {
		if err := r.Error(); err != nil {
			return 0, lacking(err, "script|load")
		}
	}
	if err := s.checked(replies[scriptCount]); err != nil || b.boot == "" {
		return 0, err
	}
	return s.epoch(ctx, conn, b, false)
}

// checked says whether the user may run what is in the scripts: a script that
// fails half-way leaves things in disorder.
func (s *store) checked(r rueidis.RedisResult) error {
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
		"ACL SETUSER … ~%s* &%s* %s", s.prefix, s.channel, strings.Join(missing, " "))
}

// lacking names the right that is missing if err is about that.
func lacking(err error, right string) error {
	if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
		return fmt.Errorf("%w: give the user the right +%s", err, right)
	}
	return err
}

func (b *binding) call(c rueidis.CommandClient, sc script, keys, args []string) rueidis.Completed {
	return c.B().Evalsha().Sha1(b.sha[sc]).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// run runs a script and returns its reply, whose first element is a number, and
// the instant before it was sent. Missing scripts are loaded, and a missing epoch
// is begun, on the way.
func (s *store) run(ctx context.Context, sc script, keys, args []string) ([]rueidis.RedisMessage, driver.Instant, *failure) {
	var stale *binding
	for range 3 {
		b, err := s.bound(ctx, stale)
		if err != nil {
			return nil, 0, notBound(ctx, err)
		}
		since := driver.Now()
		reply, err := s.do(ctx, b.call(s.client, sc, keys, args)).ToArray()
		if err == nil {
			if len(reply) > 0 && code(reply) != noEpoch {
				return reply, since, nil
			}
		} else if ret, ok := rueidis.IsRedisErr(err); !ok || !ret.IsNoScript() {
			return nil, 0, classify(ctx, err)
		}
		stale = b
	}
	return nil, 0, &failure{err: unavailable(errors.New("the server forgets its scripts or its data again and again"))}
}

const noEpoch = -1

// code returns the first element of a script's reply.
func code(reply []rueidis.RedisMessage) int64 {
	n, _ := reply[0].AsInt64()
	return n
}

// do sends a command. A client that has lost its connection waits for the next
// one without looking at the context of every caller, so then it is left behind.
func (s *store) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	if !s.shaky.Load() {
		res := s.client.Do(ctx, cmd)
		if res.NonRedisError() != nil {
			s.shaky.Store(true)
		}
		return res
	}
	answer := make(chan rueidis.RedisResult, 1)
	go func() {
		res := s.client.Do(ctx, cmd)
		s.shaky.Store(res.NonRedisError() != nil)
		answer <- res
	}()
	select {
	case res := <-answer:
		return res
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}
