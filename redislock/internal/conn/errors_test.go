// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/storekit"
)

// TestPartial: a script that a command has stopped may have written before, unless it says that it has not.
func TestPartial(t *testing.T) {
	const at = " script: 5ba1, on @user_script:31."
	for text, want := range map[string]bool{
		"The user executing the script can't run this command or subcommand" + at:             true,
		"The user executing the script can't run this command or subcommand" + at + written:   true,
		"The user executing the script can't run this command or subcommand" + at + unwritten: false,
		"NOPERM this user has no permissions to run the 'zadd' command" + at:                  true,
		"NOPERM this user has no permissions to run the 'evalsha' command":                    false,
		"WRONGTYPE Operation against a key holding the wrong kind of value" + at:              true,
		"OOM command not allowed when used memory > 'maxmemory'." + at:                        false,
		"any other error" + at: true,
	} {
		if got := Partial(text); got != want {
			t.Errorf("Partial(%q) = %v; want %v", text, got, want)
		}
	}
}

// TestReplies: each refusal says what it means, what to do at the server, and, where that is in the URL, what it
// is with go-redis.
func TestReplies(t *testing.T) {
	for _, r := range replies {
		err, lasting := Explain(errors.New(r.prefix + " and more"))
		if r.hint == "" || storekit.Advice(err) != r.doctor || r.doctor == "" || lasting != (r.kind != nil) {
			t.Errorf("%s: %v, to do: %q", r.prefix, err, storekit.Advice(err))
		}
		if strings.ContainsAny(r.hint, "?") && strings.Contains(r.hint, "=") && r.client == "" {
			t.Errorf("%s: %q is for URLs, and nothing is there for a go-redis client", r.prefix, r.hint)
		}
	}
}
