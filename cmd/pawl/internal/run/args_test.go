// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func parse(verb string, words []string) (*runArgs, error) {
	a, cmd := newArgs(new(cli.App), verb), &cobra.Command{Use: verb}
	a.flags(cmd)
	if err := cmd.ParseFlags(words); err != nil {
		return a, cli.FlagError(cmd, err)
	}
	return a, a.parse(cmd, cmd.Flags().Args())
}

func parseRun(words []string) (*runArgs, error) { return parse("run", words) }

func TestParseRun(t *testing.T) {
	for _, c := range []struct {
		args, name, command string // words are separated by a space
		wait                time.Duration
	}{
		{"x cmd", "x", "cmd", cli.ForEver},
		{"x sh -c y", "x", "sh -c y", cli.ForEver},
		{"x -w 3s -- cmd -n", "x", "cmd -n", 3 * time.Second},
		{"-n x cmd", "x", "cmd", 0},
		{"x -- -n", "x", "-n", cli.ForEver},
		{"x -- -- y", "x", "-- y", cli.ForEver},
		{"x cmd -- y", "x", "cmd -- y", cli.ForEver},
		{"-- -x cmd -n", "-x", "cmd -n", cli.ForEver},
		{"-- -x -- -n", "-x", "-n", cli.ForEver},
		{"-- x -- cmd", "x", "cmd", cli.ForEver},
		{"--wait=1m x -n=false cmd", "x", "cmd", time.Minute},
		{"-qw1s x cmd", "x", "cmd", time.Second},
	} {
		a, err := parseRun(strings.Fields(c.args))
		if err != nil || a.Name != c.name || strings.Join(a.command, " ") != c.command || a.Wait.For != c.wait {
			t.Errorf("%q: name %q, command %q, wait %v, error %v", c.args, a.Name, a.command, a.Wait.For, err)
		}
	}
}

func TestParseRunRefuses(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", 1<<20), "a\x00b", "a\nb", "a\xff"} {
		_, err := parseRun([]string{name, "cmd"})
		f := exit.As(err)
		if f.Code != exit.Misuse || len(f.Line()) > 300 || strings.ContainsAny(f.Line(), "\x00\n") {
			t.Errorf("%.20q: %d %.300s", name, f.Code, f.Line())
		}
	}
}

// TestParseRunWithoutName: the command's first word is not taken for the name.
func TestParseRunWithoutName(t *testing.T) {
	_, err := parseRun([]string{"-n", "--", "sudo", "reboot"})
	if f := exit.As(err); f.Code != exit.Misuse || !strings.Contains(f.Line(), "pawl run NAME -- sudo") {
		t.Errorf("exit code %d, %s", f.Code, f.Line())
	}
}

func TestGrace(t *testing.T) {
	for _, c := range []struct {
		args string
		want time.Duration
	}{
		{"x c", 10 * time.Second},
		{"x --ttl 9s c", 3 * time.Second},
		{"x --max-hold 3s c", time.Second},
		{"x --ttl 1h c", 10 * time.Second},
		{"x --grace 4s --ttl 10s c", 4 * time.Second},
	} {
		if a, err := parseRun(strings.Fields(c.args)); err != nil || a.grace != c.want {
			t.Errorf("%q: %v, %v, want %v", c.args, a.grace, err, c.want)
		}
	}
}

func FuzzParseRun(f *testing.F) {
	for _, s := range []string{"x\x00cmd", "-n\x00x\x00--\x00-n", "--\x00-x\x00--\x00c", "x\x00-w\x003s\x00c", "--help", "-E\x009\x00x\x00c", "x\x00--wait"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		given := slices.Clone(args)
		a, err := parseRun(args)
		if !slices.Equal(args, given) {
			t.Fatalf("arguments were changed to %q", args)
		}
		var fl *exit.Failure
		switch {
		case errors.Is(err, pflag.ErrHelp):
		case err != nil:
			if !errors.As(err, &fl) || fl.Code != exit.Misuse || !utf8.ValidString(fl.Line()) || strings.Contains(fl.Line(), "\n") {
				t.Fatalf("%q: %v", args, err)
			}
		case len(a.command) == 0 || !slices.Equal(args[len(args)-len(a.command):], a.command):
			t.Fatalf("%q: the command is %q", args, a.command)
		case !slices.Contains(args[:len(args)-len(a.command)], a.Name):
			t.Fatalf("%q: the name is %q", args, a.Name)
		}
	})
}

func TestStartHint(t *testing.T) {
	for want, err := range map[string]error{
		"ulimit -n": &os.PathError{Op: "open", Path: "/dev/null", Err: syscall.EMFILE},
		"ulimit -u": errors.New("cannot start /bin/true: " + syscall.EAGAIN.Error()), // from the guard
		"ulimit -v": os.NewSyscallError("fork", syscall.ENOMEM),
		"/dev":      &os.PathError{Op: "open", Path: "/dev/null", Err: syscall.ENOENT},
		"try again": errors.New("the guard has ended"),
	} {
		if got := startHint(err); !strings.Contains(got, want) {
			t.Errorf("%v: the hint is %q, want one with %q", err, got, want)
		}
	}
}

// TestLongCommand: the error of a long command that does not exist does not hide the advice behind it.
func TestLongCommand(t *testing.T) {
	for _, char := range []string{"x", "\xbfx"} {
		_, err := lookPath(strings.Repeat(char, 2000))
		if err == nil || len(err.Error()) > 300 || !strings.Contains(err.Error(), "…; check its spelling") {
			t.Errorf("%v", err)
		}
	}
}
