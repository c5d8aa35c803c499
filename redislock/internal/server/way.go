// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// rueidis looks at the context of a request that waits for its answer. There are two
// things that it waits for without: a connection that another caller is making, and,
// if a ring of 1024 requests without an answer is full, room in it. So a request that
// may meet one of them has a goroutine of its own, which is left behind when its
// context ends.
//
// The others do without. They have been preceded by one that was answered, after
// which no connection has ended and no request was given up: so there is a connection,
// and as answers come in order, nothing is in the ring but what is under way now. If
// the connection ends, or hundreds of other requests come, in the very instant
// between that look and the request's way into the ring, the context may be looked
// at late: by what making a connection may take, or finding out that one is dead.

// maxDirect leaves room in the ring for what has a goroutine, and for the rest.
const maxDirect = 768

// way is what is known of the way to the server.
type way struct {
	failed atomic.Int64 // requests that have had no answer
	clear  atomic.Int64 // troubles before one that was answered, and 1; 0: there was none
}

// troubles counts what may be in the way of requests. Of the connections of a client
// that is not ours nothing is known.
func (s *Server) troubles() int64 { return s.Contact.breaks.Load() + s.way.failed.Load() }

// Do sends a command. It returns when ctx ends.
func (s *Server) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	if s.Contact != nil && s.Contact.busy.Load() < maxDirect && s.way.clear.Load() == s.troubles()+1 {
		return s.do(ctx, cmd)
	}
	answer := make(chan rueidis.RedisResult, 1)
	go func() { answer <- s.do(ctx, cmd) }()
	select {
	case res := <-answer:
		return res
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

func (s *Server) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if s.Contact == nil {
		return s.client.Do(ctx, cmd)
	}
	s.Contact.busy.Add(1)
	defer s.Contact.busy.Add(-1)
	w := &s.way
	troubles := s.troubles()
	res := s.client.Do(ctx, cmd)
	if res.NonRedisError() != nil {
		w.failed.Add(1)
	} else if clear := troubles + 1; w.clear.Load() != clear && s.troubles() == troubles {
		w.clear.Store(clear)
	}
	return res
}

// DoMulti sends several commands and returns as many results, or ctx's error.
func (s *Server) DoMulti(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	answer := make(chan []rueidis.RedisResult, 1)
	go func() { answer <- s.client.DoMulti(ctx, cmds...) }() // see Do
	select {
	case replies := <-answer:
		return replies, nil
	case <-ctx.Done():
		s.way.failed.Add(1)
		return nil, ctx.Err()
	}
}
