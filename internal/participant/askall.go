// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"sync"
	"time"
)

const (
	confirmTimes   = 5
	confirmTimeout = time.Second
	confirmAgain   = 200 * time.Millisecond // after a request without an answer
)

// askAll asks for leases after their server was replaced. The new one may not know them, and
// somebody else may have the names. The next renewal would find that out, but may come much
// later. askAll calls ask for each lease, up to atOnce (at least 1) at a time, until ask reports
// that there is no more to ask: up to five times, each with a context that ends after a second.
// Once ctx has ended it begins no more. It returns when all calls of ask have returned.
func askAll[L any](ctx context.Context, atOnce int, leases []L, ask func(context.Context, L) (done bool)) {
	var asked sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, l := range leases {
		places <- struct{}{}
		asked.Go(func() {
			askFor(ctx, func(ctx context.Context) bool { return ask(ctx, l) })
			<-places
		})
	}
	asked.Wait()
}

func askFor(ctx context.Context, ask func(context.Context) bool) {
	for range confirmTimes {
		if ctx.Err() != nil {
			return
		}
		one, cancel := context.WithTimeout(ctx, confirmTimeout)
		done := ask(one)
		cancel()
		if done {
			return
		}
		select {
		case <-time.After(confirmAgain):
		case <-ctx.Done():
		}
	}
}
