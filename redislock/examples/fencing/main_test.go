// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(clientEnv) != "" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the clients, with -race
	os.Exit(m.Run())
}

// TestStory plays the story, which fails unless each act ends with the expected sum in
// the account: without a fence the wrong one, with it the right one. The error of the
// late client has both tokens.
func TestStory(t *testing.T) {
	var told strings.Builder
	err := story(&told)
	t.Log("\n" + told.String())
	if err != nil {
		t.Fatal(err)
	}
	// A client that does not get the processor for longer than the TTL loses its lease
	// and begins anew, so there may be more than three tokens.
	acts := strings.Split(told.String(), "\n\n")
	var tokens []uint64
	refused := false
	for line := range strings.Lines(acts[len(acts)-1]) {
		if _, rest, ok := strings.Cut(line, "has the lock, with token "); ok {
			var n uint64
			fmt.Sscan(rest, &n)
			tokens = append(tokens, n)
		}
		if _, rest, ok := strings.Cut(line, "is refused: fence: token "); ok {
			var old, seen uint64
			fmt.Sscanf(rest, "%d is older than %d", &old, &seen)
			refused = refused || old < seen && slices.Contains(tokens, old) && slices.Contains(tokens, seen)
		}
	}
	if len(tokens) < 3 || !slices.IsSorted(tokens) || tokens[0] == 0 || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
		t.Errorf("the tokens are %d; want three or more that grow", tokens)
	}
	if !refused {
		t.Error("nobody is refused with two of these tokens")
	}
}
