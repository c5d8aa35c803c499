// SPDX-License-Identifier: Apache-2.0

package conn

import "testing"

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
