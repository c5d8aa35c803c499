// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// TestDuration: a number alone is seconds, and what is negative is refused.
func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": time.Second / 2, "1h30m": 90 * time.Minute, "0": 0, "20ms": 20 * time.Millisecond} {
		var d Duration
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%q: %v, %v; want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"", "-", "-1", "-1s", "1.2.3", "5 m", "m"} {
		var d Duration
		if err := d.Set(text); err == nil {
			t.Errorf("%q is %v", text, time.Duration(d))
		}
	}
	for d, want := range map[time.Duration]string{ForEver: "", 0: "0", time.Minute: "1m0s"} { // in the help
		if got := (*Duration)(&d).String(); got != want {
			t.Errorf("the default %v is shown as %q, want %q", d, got, want)
		}
	}
}

// TestFlagError: a slip of the pen is corrected, and so is what other tools call a flag.
func TestFlagError(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--store=", `invalid argument "" for "-s, --store" flag: empty value: is a variable in your script unset? see lock --help`},
		{"--conflict-exit-code=1", "unknown flag: --conflict-exit-code; did you mean --busy-code? see lock --help"},
		{"--slot", "unknown flag: --slot; did you mean --slots? see lock --help"},
		{"--colour", "unknown flag: --colour; see lock --help"},
		{"--slots=many", `--slots "many" is not a number; use a whole number, such as 3`},
		{"--wait=-1s", `invalid argument "-1s" for "--wait" flag: negative duration; leave --wait out to wait for ever, or use -n not to wait`},
		{"--ttl=5x", `invalid argument "5x" for "--ttl" flag: time: unknown unit "x" in duration "5x"; durations look like 500ms, 30s, 5m or 1h30m`},
	} {
		cmd := &cobra.Command{Use: "lock"}
		var store string
		var wait, ttl time.Duration
		StoreVar(cmd.Flags(), &store, "")
		cmd.Flags().Int("slots", 0, "")
		cmd.Flags().Int("busy-code", 0, "")
		DurationVar(cmd.Flags(), &wait, "wait", ForEver, "")
		DurationVar(cmd.Flags(), &ttl, "ttl", 0, "")
		err := FlagError(cmd, cmd.ParseFlags([]string{c.flag}))
		if f := exit.As(err); f.Code != exit.Misuse || f.Error() != c.want {
			t.Errorf("%s: exit %d, %q; want %q", c.flag, f.Code, f.Error(), c.want)
		}
	}
}

// TestStoreFlag: a store that is named twice, or by an empty variable, is a mistake; a command that reads
// several takes each once.
func TestStoreFlag(t *testing.T) {
	var one string
	var all []string
	for _, add := range []func(*pflag.FlagSet){func(fs *pflag.FlagSet) { StoreVar(fs, &one, "") }, func(fs *pflag.FlagSet) { StoresVar(fs, &all) }} {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		add(fs)
		first, second := fs.Parse([]string{"-s", "file:///a"}), fs.Parse([]string{"-s", "file:///b"})
		if first != nil || (second == nil) != (len(all) == 2) || fs.Parse([]string{"--store="}) == nil {
			t.Errorf("%q, %q: %v, %v", one, all, first, second)
		}
	}
}

// TestArgs: a command says how many arguments it takes, and where the URL of a store belongs.
func TestArgs(t *testing.T) {
	cmd := &cobra.Command{Use: "pawl"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "an argument is missing; try: this"},
		{[]string{"a"}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{"a", "b", "c"}, `unexpected argument "c"; try: this`},
		{[]string{"a", "b", "cache:6379"}, "the argument looks like the address of a store; use: pawl --store redis://HOST:6379"},
	} {
		err := Args(1, 2, "try: this")(cmd, c.args)
		if got := ""; err != nil {
			got = err.Error()
			if got != c.want {
				t.Errorf("%q: %q, want %q", c.args, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("%q: no error, want %q", c.args, c.want)
		}
	}
}
