// SPDX-License-Identifier: Apache-2.0

// Package redisfence fences data in Redis: a script writes only if the token is at
// least the largest that the data has seen, and stores that with the write. See
// package fence for what fencing is.
//
// The largest token is in a guard key beside the data, in the same hash slot, for ever.
// Data without its guard key accepts every token. So the guard must not expire or be
// deleted before the data, and must not be evicted: use the maxmemory-policy
// noeviction, or a volatile one. FLUSHALL removes guard and data. A failover to a
// replica, or a restart, that loses the last writes may lose a token that had been
// raised: use WAIT, or appendfsync always, where that is not good enough.
package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
)

// Lua is the text to put before your own script. It defines
//
//	fence(guard, token)
//
// which raises the token and returns nil, or returns an error reply that the script
// has to return at once, before it has written anything:
//
//	local stale = fence(KEYS[1], ARGV[1])
//	if stale then return stale end
//
// The guard is the key that GuardKey returns, and must be among KEYS. The token is
// in decimal digits; fence refuses anything else. Error makes a *fence.StaleError of the script's error.
//
//go:embed lua/fence.lua
var Lua string

var (
	//go:embed lua/install.lua
	installLua string
	//go:embed lua/set.lua
	setLua string

	installScript = rueidis.NewLuaScript(Lua + installLua)
	setScript     = rueidis.NewLuaScript(Lua + setLua)
)

// GuardKey returns the key with the token of the data at key. It has the same hash
// tag: for "invoice" it is "fence:{invoice}", and for "{customer7}:invoice"
// "{customer7}:invoice:fence". It returns an error for the few keys for which there
// is none in their hash slot: those with a } and no hash tag.
func GuardKey(key string) (string, error) {
	if key == "" {
		return "", errors.New("redisfence: the key is empty")
	}
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return key + ":fence", nil
		}
	}
	if strings.Contains(key, "}") {
		return "", fmt.Errorf("redisfence: no other key is certain to be in the hash slot of %q: give it a hash tag, such as {customer7}", key)
	}
	return "fence:{" + key + "}", nil
}

// Install raises the token of the data at key. A new holder calls it before it reads.
// It returns a *fence.StaleError if the data has seen a larger token, the error of
// fence.Check or GuardKey, or the server's error.
//
// If an error leaves the outcome open, repeating the call with the same token is
// harmless. A server that hangs may carry it out later.
func Install(ctx context.Context, client rueidis.Client, key string, token pawl.Token) error {
	guard, err := guardOf(key, token)
	if err != nil {
		return err
	}
	return Error(installScript.Exec(ctx, client, []string{guard}, []string{Arg(token)}).Error(), key, token)
}

// Set raises the token and sets key to value, in one step. It ends a time to live that
// the key may have. It returns the errors of Install.
func Set(ctx context.Context, client rueidis.Client, key, value string, token pawl.Token) error {
	guard, err := guardOf(key, token)
	if err != nil {
		return err
	}
	return Error(setScript.Exec(ctx, client, []string{guard, key}, []string{Arg(token), value}).Error(), key, token)
}

func guardOf(key string, token pawl.Token) (string, error) {
	guard, err := GuardKey(key)
	if err == nil {
		err = fence.Check(key, token)
	}
	return guard, err
}

// Arg returns a token as an argument of a script.
func Arg(token pawl.Token) string { return strconv.FormatUint(uint64(token), 10) }

// Error returns the error of a script that begins with Lua: a *fence.StaleError if it
// was that, and otherwise err.
func Error(err error, key string, token pawl.Token) error {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err
	}
	text, ok := strings.CutPrefix(answer.Error(), "STALE ")
	if !ok {
		return fmt.Errorf("redisfence: key %q: %w", key, err)
	}
	seen, perr := fence.ParseToken(text)
	if perr != nil {
		return fmt.Errorf("redisfence: key %q: %w: %w", key, fence.ErrStale, perr)
	}
	return &fence.StaleError{Resource: key, Token: token, Seen: seen}
}
