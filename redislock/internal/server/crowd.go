// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// To call a script costs a server more than what the script does for one free lock. So
// requests that goroutines make at the same time are one call, if the script takes many.
// None of them waits for others that may come: the first lets those go ahead that are
// ready to run, and that is all. Who makes few requests notices nothing.
//
// A cluster has the keys of such requests in different hash slots.

const (
	fewRequests = 4  // under way: they are sent each by itself
	maxCrowd    = 24 // requests in a call, during which the server does nothing else
	maxOpen     = 8  // crowds that are looked through
)

// crowd is requests that are sent as one call.
type crowd struct {
	b      *binding
	script int
	keys   [][]string // by kind; the first of all is in common
	common []string   // arguments
	own    [][]string // by kind; the last arguments of each
	n      int        // requests

	done    chan struct{} // closed when the fields below are set
	replies []rueidis.RedisMessage
	err     error

	waiting int             // for the replies; crowds.mu guards it
	ctx     context.Context // of the call: it ends with the last request, not with the first
	cancel  context.CancelFunc
}

type crowds struct {
	active atomic.Int64 // requests under way
	alone  atomic.Int64 // driver.Instant until which nobody is let go first

	mu   sync.Mutex
	open []*crowd // that others may join
}

// ask runs a script for one request, together with others perhaps.
func (s *Server) ask(ctx context.Context, b *binding, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
	if s.Scripts[script].Own > 0 {
		defer s.crowds.active.Add(-1)
		if s.crowds.active.Add(1) >= fewRequests {
			if reply, err, told := s.askTogether(ctx, b, script, keys, args); told {
				return reply, err
			}
		}
	}
	return s.reply(script, s.Do(ctx, b.call(s.client, script, keys, args)))
}

// reply reads what a script has returned for one request.
func (s *Server) reply(script int, r rueidis.RedisResult) ([]rueidis.RedisMessage, error) {
	reply, err := r.ToArray()
	if err == nil && s.Scripts[script].Own > 0 {
		if len(reply) != 1 {
			return nil, errParts(len(reply), 1)
		}
		return reply[0].ToArray()
	}
	return reply, err
}

func errParts(n, want int) error {
	return fmt.Errorf("the server's answer has %d parts; want %d", n, want)
}

// askTogether is told the reply to a crowd. It is not if there was no crowd, or if that was refused: that may
// be for the sake of another request.
func (s *Server) askTogether(ctx context.Context, b *binding, script int, keys, args []string) (reply []rueidis.RedisMessage, err error, told bool) {
	c, i := s.crowds.join(b, script, s.Scripts[script].Own, keys, args)
	if c == nil {
		return nil, nil, false
	}
	switch i {
	case 0:
		switch s.crowds.gather(c) {
		case 1:
			return nil, nil, false
		case maxCrowd: // it was sent
		default:
			go s.send(c)
		}
	case maxCrowd - 1:
		go s.send(c)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		s.crowds.leave(c)
		return nil, ctx.Err(), true
	}
	if c.err == nil {
		reply, err = c.replies[i].ToArray()
		return reply, err, true
	}
	if ret := refused(c.err); ret != nil && !ret.IsNoScript() && !partial(ret.Error()) {
		return nil, nil, false
	}
	return nil, c.err, true
}

// join returns a crowd and the number of the request in it. The last that there is room
// for has to send it, and else the first. It returns nil if there are too many different ones.
func (g *crowds) join(b *binding, script, own int, keys, args []string) (*crowd, int) {
	common, mine := args[:len(args)-own], args[len(args)-own:]
	g.mu.Lock()
	defer g.mu.Unlock()
	for at, c := range g.open {
		if c.b != b || c.script != script || c.keys[0][0] != keys[0] || !slices.Equal(c.common, common) {
			continue
		}
		for kind, key := range keys[1:] {
			c.keys[kind+1] = append(c.keys[kind+1], key)
		}
		for kind, arg := range mine {
			c.own[kind] = append(c.own[kind], arg)
		}
		c.n++
		if c.waiting++; c.n == maxCrowd {
			g.open = slices.Delete(g.open, at, at+1)
		}
		return c, c.n - 1
	}
	if len(g.open) == maxOpen {
		return nil, 0
	}
	c := &crowd{b: b, script: script, common: slices.Clone(common), n: 1, done: make(chan struct{}), waiting: 1}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, key := range keys {
		c.keys = append(c.keys, []string{key})
	}
	for _, arg := range mine {
		c.own = append(c.own, []string{arg})
	}
	g.open = append(g.open, c)
	return c, 0
}

// gather lets those join that are ready to run, and nobody after them. It returns how
// many requests there are. As for heardConn.Write, it may be long before it is the
// caller's turn again. That is no matter if the crowd was complete: it was sent then.
func (g *crowds) gather(c *crowd) int {
	began := driver.Now()
	if began >= driver.Instant(g.alone.Load()) {
		runtime.Gosched()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := slices.Index(g.open, c); at >= 0 {
		g.open = slices.Delete(g.open, at, at+1)
		if now := driver.Now(); now.Sub(began) > longTurn {
			g.alone.Store(int64(now.Add(10 * longTurn)))
		}
	}
	return c.n
}

// leave ends the call if nobody else waits for it.
func (g *crowds) leave(c *crowd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
	}
}

func (s *Server) send(c *crowd) {
	defer c.cancel()
	if s.Contact != nil {
		s.Contact.calls.Add(1)
		defer s.Contact.calls.Add(-1)
	}
	args := append(c.common, slices.Concat(c.own...)...)
	c.replies, c.err = s.do(c.ctx, c.b.call(s.client, c.script, slices.Concat(c.keys...), args)).ToArray()
	if c.err == nil && len(c.replies) != c.n {
		c.err = errParts(len(c.replies), c.n)
	}
	close(c.done)
}
