// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
)

// script is one of several that take this many arguments for each request.
type script struct{ own, which int }

func (s script) PerRequest() int { return s.own }

func (s script) Call(context.Context, int, []string, []string) ([]rueidis.RedisMessage, error) {
	return nil, nil
}

// TestJoin: requests are in a batch with their like only, and in one that is not complete.
func TestJoin(t *testing.T) {
	var r Requests
	join := func(which int, epoch, common, own string) (*batch, int) {
		return r.join(script{2, which}, []string{epoch, "lock " + own}, []string{common, own, "token " + own})
	}
	b, i := join(0, "epoch", "ttl", "0")
	if i != 0 {
		t.Errorf("the first is number %d", i)
	}
	for _, unlike := range []func() (*batch, int){
		func() (*batch, int) { return join(1, "epoch", "ttl", "x") },
		func() (*batch, int) { return join(0, "another epoch", "ttl", "x") },
		func() (*batch, int) { return join(0, "epoch", "another ttl", "x") },
	} {
		if c, i := unlike(); c == b || i != 0 {
			t.Error("a request is in a batch of others")
		}
	}
	for n := 1; n < maxBatch; n++ {
		if c, i := join(0, "epoch", "ttl", fmt.Sprint(n)); c != b || i != n {
			t.Fatalf("request %d is number %d of a batch; want the same batch: %v", n, i, c == b)
		}
	}
	if c, i := join(0, "epoch", "ttl", "more"); c == b || i != 0 {
		t.Error("a request joins a batch that is complete")
	}
	if n := r.gather(b); n != maxBatch {
		t.Errorf("%d requests are in a batch that is complete", n)
	}
	if len(b.keys) != 2 || len(b.keys[0]) != 1 || len(b.keys[1]) != maxBatch || b.keys[1][7] != "lock 7" || b.own[0][7] != "7" || b.own[1][7] != "token 7" || len(b.common) != 1 {
		t.Errorf("the keys are %v, the arguments %v and %v", b.keys, b.common, b.own)
	}
	for n := len(r.open); n < maxOpen; n++ {
		join(0, "epoch", fmt.Sprint("ttl ", n), "")
	}
	if b, _ := join(0, "epoch", "one ttl more", ""); b != nil {
		t.Error("there are more batches than may be looked through")
	}
}

// TestGather: a request that comes after a batch was closed is in another one.
func TestGather(t *testing.T) {
	var r Requests
	b, _ := r.join(script{own: 1}, []string{"epoch"}, []string{""})
	if n := r.gather(b); n != 1 {
		t.Errorf("%d requests are in the batch; want 1", n)
	}
	if c, i := r.join(script{own: 1}, []string{"epoch"}, []string{""}); c == b || i != 0 {
		t.Error("a request joins a batch that is closed")
	}
}

// silent is a script on a server that does not answer.
type silent struct{ script }

func (silent) Call(ctx context.Context, _ int, _, _ []string) ([]rueidis.RedisMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCallsEnd: a call for requests that were all given up ends with the participant. The bubble fails if a call is left.
func TestCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(context.Background())
		r := Requests{Context: life}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var asked sync.WaitGroup
		for i := range 3 * fewRequests {
			asked.Go(func() {
				if _, err := r.Ask(ctx, silent{script{own: 1}}, []string{"epoch"}, []string{fmt.Sprint(i)}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Ask = %v; want the end of its context", err)
				}
			})
		}
		asked.Wait()
		end()
	})
}
