// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Calling a script costs a server more than what the script does for one free lock. So the requests that goroutines make
// while a few are under way become one call, if the script takes many.
const (
	fewRequests = 4                // with fewer under way, each is sent by itself
	mostInCall  = 24               // the server serves nothing else meanwhile
	batchWait   = time.Millisecond // for an answer to those that are under way
)

// asking is one request for a script that takes many.
type asking struct {
	b          *Binding
	keys, args []string
}

type answer = storekit.Reply[[]rueidis.RedisMessage]

// batches returns what gathers the requests for each script.
func (s *Server) batches() []storekit.Batch[asking, []rueidis.RedisMessage] {
	all := make([]storekit.Batch[asking, []rueidis.RedisMessage], len(s.Scripts))
	for i := range all {
		b := &all[i]
		b.Few, b.Most, b.Wait = fewRequests, mostInCall, batchWait
		b.Alone = func(ctx context.Context, q asking) ([]rueidis.RedisMessage, error) {
			return s.Reply(i, s.Do(ctx, q.b.Call(s.Client, i, q.keys, q.args)))
		}
		b.Together = func(ctx context.Context, requests []asking) []answer { return s.together(ctx, i, requests) }
	}
	return all
}

// together makes one call of the requests that are alike. The keys and arguments of all but the first key, and but the
// arguments in common, are given by their kind: the second key of all requests, the third of all.
func (s *Server) together(ctx context.Context, script int, requests []asking) []answer {
	answers := make([]answer, len(requests))
	var calls sync.WaitGroup
	for _, alike := range s.alike(script, requests) {
		if len(alike) == 1 {
			answers[alike[0]].Alone = true
			continue
		}
		calls.Go(func() { s.callFor(ctx, script, requests, alike, answers) })
	}
	calls.Wait()
	return answers
}

// alike returns which requests can be one call.
func (s *Server) alike(script int, requests []asking) (groups [][]int) {
	common := func(q asking) []string { return q.args[:len(q.args)-s.Scripts[script].PerRequest] }
	for i, q := range requests {
		at := slices.IndexFunc(groups, func(group []int) bool {
			first := requests[group[0]]
			return first.b == q.b && first.keys[0] == q.keys[0] && slices.Equal(common(first), common(q))
		})
		if at < 0 {
			groups = append(groups, []int{i})
		} else {
			groups[at] = append(groups[at], i)
		}
	}
	return groups
}

// callFor makes a call for some of the requests.
func (s *Server) callFor(ctx context.Context, script int, requests []asking, some []int, answers []answer) {
	first, own := requests[some[0]], s.Scripts[script].PerRequest
	keys, args := first.keys[:1:1], first.args[:len(first.args)-own:len(first.args)-own]
	for kind := 1; kind < len(first.keys); kind++ {
		for _, i := range some {
			keys = append(keys, requests[i].keys[kind])
		}
	}
	for kind := range own {
		for _, i := range some {
			args = append(args, requests[i].args[len(requests[i].args)-own+kind])
		}
	}
	replies, err := s.DoBatch(ctx, first.b.Call(s.Client, script, keys, args)).ToArray()
	if err == nil && len(replies) != len(some) {
		err = conn.WrongLength(len(replies), len(some))
	}
	// The server may have refused the call because of one of the requests.
	ret := conn.Refused(err)
	alone := ret != nil && !ret.IsNoScript() && !conn.Partial(ret.Error())
	for n, i := range some {
		switch {
		case err == nil:
			answers[i].Answer, answers[i].Err = replies[n].ToArray()
		default:
			answers[i].Err, answers[i].Alone = err, alone
		}
	}
}
