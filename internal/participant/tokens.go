// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"fmt"
	"sync"
)

// maxTokens bounds how many names a client remembers the token of.
const maxTokens = 4096

// tokens remembers the greatest token that the store has granted to this client on each name.
// A store that was restored from a backup grants old tokens again, and only its clients can
// notice.
type tokens struct {
	mu   sync.Mutex
	last map[string]uint64
}

func (t *tokens) seen(name string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[name]
}

func (t *tokens) saw(name string, token uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token <= t.last[name] {
		return
	}
	if t.last == nil || len(t.last) >= maxTokens {
		t.last = make(map[string]uint64)
	}
	t.last[name] = token
}

// checkToken returns an error if a grant has a token that is not greater than seen, the greatest
// token on its name when it was requested.
func checkToken(token, seen uint64) error {
	if token == 0 || token > seen {
		return nil
	}
	return fmt.Errorf("the store granted token %d, and granted %d to this client before: it has gone back to an older state, as after a restore from a backup; "+
		"make it count on from above, or lower the tokens that the resources remember and restart its clients", token, seen)
}
