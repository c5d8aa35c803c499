// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestConfirm: each lease is asked for until there is an answer, but not for ever; no more than
// so many at a time; and no more once the context has ended.
func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		asked := make(map[int]int)
		answers := map[int]int{1: 1, 2: 3, 3: 100, 4: 1, 5: 5} // how many requests one answer takes
		ask := func(ctx context.Context, lease int) bool {
			mu.Lock()
			asked[lease]++
			now++
			most = max(most, now)
			answers := asked[lease] == answers[lease]
			mu.Unlock()
			if !answers {
				<-ctx.Done() // the server is silent
			}
			mu.Lock()
			now--
			mu.Unlock()
			return answers
		}
		askAll(t.Context(), 2, []int{1, 2, 3, 4, 5}, ask)
		for lease, want := range map[int]int{1: 1, 2: 3, 3: confirmTimes, 4: 1, 5: 5} {
			if asked[lease] != want {
				t.Errorf("lease %d was asked for %d times; want %d", lease, asked[lease], want)
			}
		}
		if most != 2 {
			t.Errorf("%d leases were asked for at a time; want 2", most)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(confirmTimeout/2, cancel)
		began := time.Now()
		askAll(ctx, 2, []int{6, 7, 8}, ask)
		if asked[6] != 1 || asked[7] != 1 || asked[8] != 0 || time.Since(began) != confirmTimeout/2 {
			t.Errorf("after the end of the context %d, %v later", asked, time.Since(began))
		}
	})
}
