// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
)

// TestJoin: requests are in one batch if their scripts, their first keys and their common
// arguments are the same, up to maxBatch of them.
func TestJoin(t *testing.T) {
	var sent struct{ keys, args []string }
	r := batches{ctx: t.Context(), send: func(_ context.Context, _ scriptCall, _ int, keys, args []string) ([]rueidis.RedisMessage, error) {
		sent.keys, sent.args = keys, args
		return nil, nil
	}}
	join := func(script int, epoch, common, own string) (*batch, int) {
		return r.join(scriptCall{nil, script, 2}, []string{epoch, "lock " + own}, []string{common, own, "token " + own})
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
	r.sendBatch(b)
	keys, args := []string{"epoch"}, []string{"ttl"}
	for n := range maxBatch {
		keys, args = append(keys, fmt.Sprint("lock ", n)), append(args, fmt.Sprint(n))
	}
	for n := range maxBatch {
		args = append(args, fmt.Sprint("token ", n))
	}
	if !slices.Equal(sent.keys, keys) || !slices.Equal(sent.args, args) {
		t.Errorf("the keys are %q, the arguments %q", sent.keys, sent.args)
	}
	for n := len(r.open); n < maxOpen; n++ {
		join(0, "epoch", fmt.Sprint("ttl ", n), "")
	}
	if b, _ := join(0, "epoch", "one ttl more", ""); b != nil {
		t.Error("there are more batches than may be looked through")
	}
}

// TestGather: a batch with one request is sent without a batch, and nobody joins it any more.
func TestGather(t *testing.T) {
	var r batches
	b, _ := r.join(scriptCall{own: 1}, []string{"epoch"}, []string{""})
	if n := r.gather(b); n != 1 {
		t.Errorf("%d requests are in the batch; want 1", n)
	}
	if c, i := r.join(scriptCall{own: 1}, []string{"epoch"}, []string{""}); c == b || i != 0 {
		t.Error("a request joins a batch that is closed")
	}
}

// TestCallsEnd: when the callers have given up, and the participant is closed, no call is left.
func TestCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(context.Background())
		r := batches{ctx: life, send: func(ctx context.Context, _ scriptCall, _ int, _, _ []string) ([]rueidis.RedisMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var asked sync.WaitGroup
		for i := range 3 * fewRequests {
			asked.Go(func() {
				if _, err := r.ask(ctx, scriptCall{own: 1}, []string{"epoch"}, []string{fmt.Sprint(i)}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ask = %v; want the end of its context", err)
				}
			})
		}
		asked.Wait()
		end()
	})
}
