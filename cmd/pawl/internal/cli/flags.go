// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/storekit"
)

// DurationVar adds a flag for a duration whose default is unless.
func DurationVar(fs *pflag.FlagSet, d *time.Duration, name string, unless time.Duration, usage string) {
	*d = unless
	fs.Var((*Duration)(d), name, usage)
}

// ForEver is the value of Wait.For without --wait.
const ForEver = time.Duration(-1)

// Duration is a flag for a duration. Set refuses negative values; the default may be negative.
type Duration time.Duration

func (v *Duration) Set(s string) error {
	d, err := ParseDuration(s)
	if err == nil && d < 0 {
		err = ErrNegative
	}
	*v = Duration(d)
	return err
}

// Wait is how long to wait for a lock: for ever, unless its flags say otherwise.
type Wait struct {
	For time.Duration
	not bool
}

// Flags adds --wait and --no-wait.
func (w *Wait) Flags(fs *pflag.FlagSet) {
	w.For = ForEver
	fs.VarP((*Duration)(&w.For), "wait", "w", "wait at most this `DURATION`, such as 5m; a plain number is seconds (default: forever, while the store answers)")
	fs.BoolVarP(&w.not, "no-wait", "n", false, "do not wait; the same as --wait 0")
}

// Check checks that --wait and --no-wait agree, and applies --no-wait.
func (w *Wait) Check() error {
	if w.not && w.For > 0 {
		return exit.Usage("--no-wait and --wait cannot be used together", "use one of them")
	}
	if w.not {
		w.For = 0
	}
	return nil
}

// ParseDuration parses a duration. It takes a plain number as seconds, as flock(1), timeout(1) and sleep(1) do.
func ParseDuration(s string) (time.Duration, error) {
	if s != "" && strings.Trim(s, "-0123456789.") == "" {
		s += "s"
	}
	return time.ParseDuration(s)
}

var ErrNegative = errors.New("negative duration")

func (v *Duration) Type() string { return "duration" }

// String returns the duration. The help shows it as the default, except for "" and "0".
func (v *Duration) String() string {
	switch {
	case *v < 0:
		return ""
	case *v == 0:
		return "0"
	}
	return time.Duration(*v).String()
}

// StoreVar adds --store. An empty value is an error: it may come from a variable that is unset by
// mistake, and the default store would not be the one that other programs use.
func StoreVar(fs *pflag.FlagSet, url *string, usage string) {
	fs.FuncP("store", "s", usage, func(s string) error {
		if *url != "" {
			return errors.New("given twice: name one store")
		}
		*url = s
		return notEmpty(s)
	})
}

// StoresVar adds --store to a command that reads several stores.
func StoresVar(fs *pflag.FlagSet, urls *[]string) {
	fs.FuncP("store", "s", "`URL` of a store; may be repeated (default $PAWL_STORE, or a directory of yours)", func(s string) error {
		*urls = append(*urls, s)
		return notEmpty(s)
	})
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("empty value: is a variable in your script unset?")
	}
	return nil
}

// ChoiceVar adds a flag whose value is one of words. The default is *v.
func ChoiceVar(cmd *cobra.Command, v *string, name, usage string, words ...string) {
	cmd.Flags().Var(&choice{v, words}, name, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails only if the flag does not exist
}

type choice struct {
	value *string
	words []string
}

func (c *choice) Set(s string) error {
	if last := len(c.words) - 1; !slices.Contains(c.words, s) {
		return fmt.Errorf("use %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	*c.value = s
	return nil
}

func (c *choice) String() string { return *c.value }

func (c *choice) Type() string { return "string" }

// otherFlags maps flags of other tools to the flags of pawl.
var otherFlags = map[string]string{
	"timeout": "wait", "nonblock": "no-wait", "nb": "no-wait", "conflict-exit-code": "busy-code", "holders": "slots", "reason": "why",
}

// FlagError returns the failure for an error of pflag. It keeps pflag's text, which names the flag, and adds a
// hint what to type instead.
func FlagError(cmd *cobra.Command, err error) error {
	text, help := display.Shorten(err.Error(), 200), likeFlag(err, cmd.Flags())+"see "+cmd.CommandPath()+" --help"
	value := new(pflag.InvalidValueError)
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if !errors.As(err, &value) {
		return exit.Usage(text, help)
	}
	switch flag := value.GetFlag(); {
	case flag.Name == "wait" && errors.Is(err, ErrNegative):
		help = "leave --wait out to wait for ever, or use -n not to wait"
	case flag.Value.Type() == "duration":
		help = "durations look like 500ms, 30s, 5m or 1h30m"
	case flag.Value.Type() == "int":
		return exit.Usage(fmt.Sprintf("--%s %q is not a number", flag.Name, display.Shorten(value.GetValue(), 40)), "use a whole number, such as 3")
	}
	return exit.Usage(text, help)
}

// likeFlag returns a question that suggests a flag similar to the unknown flag in err, or "".
func likeFlag(err error, fs *pflag.FlagSet) string {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if meant := storekit.Nearest(missing.GetSpecifiedName(), names, otherFlags); meant != "" {
		return "did you mean --" + meant + "? "
	}
	return ""
}
