// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"os"
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

// TestStory plays the story, which fails unless the account holds in the end of each act
// what it must: without a fence the wrong sum, with it the right one. Who was late is
// told both tokens.
func TestStory(t *testing.T) {
	var told strings.Builder
	err := story(&told)
	t.Log("\n" + told.String())
	if err != nil {
		t.Fatal(err)
	}
	acts := strings.Split(told.String(), "\n\n")
	tokens := make([]uint64, 0, 3)
	for line := range strings.Lines(acts[len(acts)-1]) {
		if _, rest, ok := strings.Cut(line, "has the lock, with token "); ok {
			var n uint64
			fmt.Sscan(rest, &n)
			tokens = append(tokens, n)
		}
	}
	if len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
		t.Fatalf("the tokens are %d; want three that grow", tokens)
	}
	if want := fmt.Sprintf("is refused: fence: token %d is older than %d", tokens[0], tokens[1]); !strings.Contains(told.String(), want) {
		t.Errorf("nobody %s", want)
	}
}
