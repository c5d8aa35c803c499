// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisfence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
)

func TestSet(t *testing.T) {
	_, c := startServer(t)
	for _, key := range []string{"invoice", "{customer7}:invoice", "x {y"} {
		for _, token := range []pawl.Token{9, 10, 10, 33, 34, 1<<53 + 1, 1<<53 + 2, fence.MaxToken} {
			if err := Set(t.Context(), c, key, fmt.Sprint("by ", token), token); err != nil {
				t.Fatal(err)
			}
			var stale *fence.StaleError
			err := Set(t.Context(), c, key, "late", token-1)
			if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: key, Token: token - 1, Seen: token}) {
				t.Errorf("%q: token %d after %d: %v", key, token-1, token, err)
			}
			if got, want := ask(c, "GET", key), fmt.Sprint("by ", token); got != want {
				t.Errorf("%q is %q, want %q", key, got, want)
			}
		}
	}
}

// TestInstall: what a late write finds between the new holder's read and its write.
func TestInstall(t *testing.T) {
	_, c := startServer(t)
	if err := Set(t.Context(), c, "x", "one", 33); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again, as the answer was lost
		if err := Install(t.Context(), c, "x", 34); err != nil {
			t.Fatal(err)
		}
	}
	if err := Set(t.Context(), c, "x", "late", 33); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Set = %v", err)
	}
	if err := Install(t.Context(), c, "x", 33); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Install = %v", err)
	}
	if got := ask(c, "GET", "x"); got != "one" {
		t.Errorf("it is %q", got)
	}
	if got := count(c, "PTTL", "fence:{x}"); got != -1 {
		t.Errorf("the guard key's time to live is %d", got)
	}
}

func TestRefusals(t *testing.T) {
	_, c := startServer(t)
	for _, e := range []struct {
		key   string
		token pawl.Token
		want  string
	}{
		{"x", 0, "token 0 is no fencing token"},
		{"x", fence.MaxToken + 1, "larger than 2^63-1"},
		{"", 1, "the key is empty"},
		{"a}b", 1, "give it a hash tag"},
		{"{}x", 1, "give it a hash tag"},
	} {
		if err := Set(t.Context(), c, e.key, "", e.token); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("Set(%q, %d) = %v", e.key, e.token, err)
		}
		if err := Install(t.Context(), c, e.key, e.token); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("Install(%q, %d) = %v", e.key, e.token, err)
		}
	}
	if n := count(c, "DBSIZE"); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	for _, garbage := range []string{"", "0", "-1", "034", "3e9", "33 ", "x"} {
		ask(c, "SET", "fence:{x}", garbage)
		err := Set(t.Context(), c, "x", "", 99)
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "GARBLED") || ask(c, "GET", "fence:{x}") != garbage {
			t.Errorf("the guard key holds %q: %v", garbage, err)
		}
	}
	ask(c, "DEL", "fence:{x}")
	ask(c, "LPUSH", "fence:{x}", "1")
	if err := Set(t.Context(), c, "x", "", 99); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || count(c, "EXISTS", "x") != 0 {
		t.Errorf("the guard key is a list: %v", err)
	}
}

// TestNoToken: a script that is given anything else than a token, such as an empty
// $PAWL_TOKEN, writes nothing, and the guard key is as it was.
func TestNoToken(t *testing.T) {
	_, c := startServer(t)
	script := rueidis.NewLuaScript(Lua + setLua)
	for _, before := range []string{"", "33"} {
		if before != "" {
			ask(c, "SET", "fence:{x}", before)
		}
		for _, token := range []string{"", "0", "-1", "034", "3e9", "34 ", "x", "99999999999999999999"} {
			err := Error(script.Exec(t.Context(), c, []string{"fence:{x}", "x"}, []string{token, "written"}).Error(), "x", 34)
			if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "NOTOKEN") {
				t.Errorf("token %q: %v", token, err)
			}
		}
		if got := ask(c, "GET", "fence:{x}"); count(c, "EXISTS", "x") != 0 || before != "" && got != before {
			t.Errorf("written; the guard key holds %q", got)
		}
		if n := count(c, "EXISTS", "fence:{x}"); (n == 1) != (before != "") {
			t.Errorf("%d guard keys", n)
		}
	}
}

// TestCluster: guard and data are in one hash slot, whatever the key looks like.
func TestCluster(t *testing.T) {
	_, c := startServer(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	if got := ask(c, "CLUSTER", "ADDSLOTSRANGE", "0", "16383"); got != "OK" {
		t.Fatal(got)
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(ask(c, "CLUSTER", "INFO"), "cluster_state:ok"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(ask(c, "CLUSTER", "INFO"))
		}
	}
	guards := make(map[string]string)
	for _, key := range []string{"x", "{x}", "{x}:fence", "x:fence", "fence:{x}", "fence:x", "{x", "a{x", "a{b}c{d}", "{{x}}", "{a}{", "ключ", "a b", "}{x}"} {
		if err := Set(t.Context(), c, key, "value", 33); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if err := Set(t.Context(), c, key, "late", 32); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%q: %v", key, err)
		}
		guard, err := GuardKey(key)
		if other, ok := guards[guard]; ok || err != nil {
			t.Errorf("%q and %q have the same guard: %v", key, other, err)
		}
		guards[guard] = key
	}
}

// TestHistory: of writers with mixed tokens none is let in after a larger one, as the
// list that they append to shows; without the fence some are.
func TestHistory(t *testing.T) {
	_, c := startServer(t)
	for _, fenced := range []bool{true, false} {
		body := "redis.call('RPUSH', KEYS[2], ARGV[1])"
		if fenced {
			body = "local stale = fence(KEYS[1], ARGV[1])\nif stale then return stale end\n" + body
		}
		script := rueidis.NewLuaScript(Lua + body)
		list := fmt.Sprint("history ", fenced)
		guard, err := GuardKey(list)
		if err != nil {
			t.Fatal(err)
		}
		var next, refused atomic.Int64
		var wait sync.WaitGroup
		for range 16 {
			wait.Go(func() {
				for range 30 {
					token := pawl.Token(100 + next.Add(1) - rand.Int64N(100))
					err := Error(script.Exec(t.Context(), c, []string{guard, list}, []string{Arg(token)}).Error(), list, token)
					if errors.Is(err, fence.ErrStale) {
						refused.Add(1)
					} else if err != nil && !rueidis.IsRedisNil(err) {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		tokens, err := c.Do(t.Context(), c.B().Lrange().Key(list).Start(0).Stop(-1).Build()).AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		var late int
		for i := 1; i < len(tokens); i++ {
			if tokens[i] < tokens[i-1] {
				late++
			}
		}
		if fenced && (late > 0 || refused.Load() == 0) || !fenced && late == 0 {
			t.Errorf("fenced: %v: %d writes, %d of them late, %d refused", fenced, len(tokens), late, refused.Load())
		}
	}
}
