// SPDX-License-Identifier: Apache-2.0

// Package redisfence fences data in Redis: a script writes only if its token is not smaller
// than the largest token that the data has seen. It stores the token in the same step. See
// package fence for the idea of fencing.
//
// The largest token is in a guard key beside the data, in the same hash slot. The guard key
// has no TTL. Data without a guard key accepts every token. So do not delete the guard key
// before the data, and make sure that the server does not evict it: use the
// maxmemory-policy noeviction, or a volatile one. FLUSHALL removes both the guard key and
// the data. A failover or a restart that loses the last writes may also lose the largest
// token; to prevent that use WAIT, or appendfsync always.
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

// Lua is text to put before your own script. It defines the function
//
//	fence(guard, token)
//
// fence stores the token and returns nil. If the token is too small, it returns an error
// reply instead. The script must then return that error reply, before it writes anything:
//
//	local stale = fence(KEYS[1], ARGV[1])
//	if stale then return stale end
//
// The guard is the key that GuardKey returns, and must be among KEYS. The token is in
// decimal digits; for other text fence returns an error reply. Error turns the script's
// error into a *fence.StaleError.
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

// GuardKey returns the guard key of the data at key. The guard key is in the same hash
// slot: for "invoice" it is "fence:{invoice}", and for "{customer7}:invoice" it is
// "{customer7}:invoice:fence". For a key with a } and no hash tag GuardKey returns an
// error, since no other key is certain to be in the same slot.
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

// Install stores token as the largest token of the data at key. A new holder calls it
// before it reads. Install returns a *fence.StaleError if the data has seen a larger
// token, an error of fence.Check or GuardKey, or the server's error.
//
// If an error leaves the outcome open, call Install again with the same token; that is
// harmless. A server that hangs may execute the call later.
func Install(ctx context.Context, client rueidis.Client, key string, token pawl.Token) error {
	guard, err := guardOf(key, token)
	if err != nil {
		return err
	}
	return Error(installScript.Exec(ctx, client, []string{guard}, []string{Arg(token)}).Error(), key, token)
}

// Set is Install, and sets key to value in the same step. Like the command SET it removes
// the TTL of key. It returns the errors of Install.
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

// Error returns the error of a script that begins with Lua. It returns a *fence.StaleError
// if fence has refused the token as too small. It wraps other errors of the server, and
// returns all other errors unchanged.
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
