// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func TestParseRun(t *testing.T) {
	for _, c := range []struct {
		args, name, command string // words are separated by a space
		wait                time.Duration
	}{
		{"x cmd", "x", "cmd", forEver},
		{"x sh -c y", "x", "sh -c y", forEver},
		{"x -w 3s -- cmd -n", "x", "cmd -n", 3 * time.Second},
		{"-n x cmd", "x", "cmd", 0},
		{"x -- -n", "x", "-n", forEver},
		{"x -- -- y", "x", "-- y", forEver},
		{"x cmd -- y", "x", "cmd -- y", forEver},
		{"-- -x cmd -n", "-x", "cmd -n", forEver},
		{"-- -x -- -n", "-x", "-n", forEver},
		{"-- x -- cmd", "x", "cmd", forEver},
		{"--wait=1m x -n=false cmd", "x", "cmd", time.Minute},
		{"-qw1s x cmd", "x", "cmd", time.Second},
	} {
		a, err := parseRun(strings.Fields(c.args))
		if err != nil || a.name != c.name || strings.Join(a.command, " ") != c.command || a.wait != c.wait {
			t.Errorf("%q: name %q, command %q, wait %v, error %v", c.args, a.name, a.command, a.wait, err)
		}
	}
}

func TestParseRunRefuses(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", 1<<20), "a\x00b", "a\nb", "a\xff"} {
		_, err := parseRun([]string{name, "cmd"})
		f := asFailure(err)
		if f.code != exitUsage || len(f.line()) > 300 || strings.ContainsAny(f.line(), "\x00\n") {
			t.Errorf("%.20q: %d %.300s", name, f.code, f.line())
		}
	}
}

// TestParseRunNumbers: the words of strconv are not for users.
func TestParseRunNumbers(t *testing.T) {
	for _, flag := range []string{"--slots", "-E"} {
		_, err := parseRun([]string{"x", flag, "many", "cmd"})
		if f := asFailure(err); f.code != exitUsage || !strings.Contains(f.line(), `"many" is no number; use a whole number`) {
			t.Errorf("%s: exit code %d, %s", flag, f.code, f.line())
		}
	}
}

// TestParseRunWithoutName: the command's first word is not taken for the name.
func TestParseRunWithoutName(t *testing.T) {
	_, err := parseRun([]string{"-n", "--", "sudo", "reboot"})
	if f := asFailure(err); f.code != exitUsage || !strings.Contains(f.line(), "pawl run NAME -- sudo") {
		t.Errorf("exit code %d, %s", f.code, f.line())
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
		var fl *failure
		switch {
		case errors.Is(err, pflag.ErrHelp):
		case err != nil:
			if !errors.As(err, &fl) || fl.code != exitUsage || !utf8.ValidString(fl.line()) || strings.Contains(fl.line(), "\n") {
				t.Fatalf("%q: %v", args, err)
			}
		case len(a.command) == 0 || !slices.Equal(args[len(args)-len(a.command):], a.command):
			t.Fatalf("%q: the command is %q", args, a.command)
		case !slices.Contains(args[:len(args)-len(a.command)], a.name):
			t.Fatalf("%q: the name is %q", args, a.name)
		}
	})
}

var testScheme = sync.OnceFunc(func() {
	pawl.Register("test", func(context.Context, string, *pawl.Options) (driver.Driver, error) { return nil, errors.ErrUnsupported })
})

// TestEveryStoreIsIn: no store is left out of the command.
func TestEveryStoreIsIn(t *testing.T) {
	known := slices.DeleteFunc(pawl.Schemes(), func(s string) bool { return s == "test" || s == "mem" || s == "memory" })
	if got := strings.Join(known, " "); got != "etcd etcds file postgres postgresql redis rediss redlock unix zk zks" {
		t.Errorf("the schemes are %s", got)
	}
}

// TestBareURL: a URL of which PostgreSQL's variables say the rest is one that can be typed again.
func TestBareURL(t *testing.T) {
	for _, text := range []string{"postgres://", "postgres://?sslmode=disable", "redis://h", "file:///d"} {
		u, err := parseStore(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.String(); got != text || sameStore(got) == "" {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

func TestStoreURL(t *testing.T) {
	testScheme()
	u := func(s string) string {
		p, err := parseStore(s)
		if err != nil {
			return err.Error()
		}
		return p.String()
	}
	for _, c := range [][2]string{
		{"file:///dir", "file:///dir"},
		{"FILE:/dir", "file:/dir"},
		{"test://u:secret@h/0", "test://u@h/0"},
		{"test://secret@h/0", "test://h/0"},
		{"test://u@h/0?password_file=F", "test://u@h/0?password_file=F"},
		{"test://h/0?password=secret&ttl=1s", "test://h/0?ttl=1s"},
		{"test://me:secret@h1:1,h2,[::1]:3/0", "test://me@h1:1,h2,[::1]:3/0"},
		{"test://h/0?password_file=F&sentinel_password=secret", "test://h/0?password_file=F"},
	} {
		if got := u(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	for _, s := range []string{"test://u:secret@[/0", "test://u:secret@h:port", "redis://u:secret@h", "secret", "test://u:se\x7fcret@h",
		"test://:2024/secret@h:6379", "test://app:12?secret@h", "test://u/secret@h/0",
		"test://me:some@secret/more@h", "test://me:some@secret?more@h", "test://h1,me:secret"} {
		if got := u(s); strings.Contains(got, "cret") {
			t.Errorf("%q: %q tells the password", s, got)
		}
	}
}

func FuzzStoreURL(f *testing.F) {
	f.Add("file", "//", "/dir")
	f.Add("redis", "//u", "@h:1/0")
	f.Add("file", "//u", "@[::1")
	f.Add("file", "//u", "@h?password=x")
	f.Fuzz(func(t *testing.T, scheme, before, after string) {
		const secret = "hunter2horse"
		s, err := parseStore(scheme + ":" + before + ":" + secret + after)
		if err != nil {
			if f := asFailure(err); f.code != exitConfig || strings.Contains(f.line(), secret) {
				t.Fatalf("%s", f.line())
			}
			return
		}
		if s.url.User != nil && strings.Contains(s.String(), secret) && !strings.Contains(s.url.Path+s.url.Host+s.url.User.Username()+s.url.RawQuery+s.url.Fragment, secret) {
			t.Fatalf("%s", s)
		}
	})
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"make", "deploy"}, "make deploy"},
		{[]string{"sh", "-c", "a b"}, "sh -c 'a b'"},
		{[]string{"echo", "it's", ""}, `echo 'it'\''s' ''`},
		{[]string{strings.Repeat("ä", 300)}, strings.Repeat("ä", 98) + "…"},
		{[]string{"\xff"}, "'\uFFFD'"},
	} {
		if got := commandLine(c.words); got != c.want || len(got) > maxCommand {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}

// TestPublicCommand: no flag and no value is shown to others.
func TestPublicCommand(t *testing.T) {
	for _, c := range [][2]string{
		{"make deploy", "make deploy"},
		{"terraform apply -auto-approve -var password=s3cret", "terraform apply"},
		{"/usr/local/bin/git push https://me:s3cret@host", "/usr/local/bin/git push"},
		{"./gradlew db:migrate", "./gradlew db:migrate"},
		{"git --git-dir=/s3cret push", "git"},
		{"make S3CRET=s3cret", "make"},
		{"vault s3cret", "vault"},
		{"mysql -ps3cret db", "mysql"},
		{"./job hunter", "./job"},
		{"sh -c s3cret", "sh"},
		{"env PASSWORD=s3cret work", "env"},
		{"true", "true"},
	} {
		if got := publicCommand(strings.Fields(c[0])); got != c[1] {
			t.Errorf("%s: shown is %q, want %q", c[0], got, c[1])
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[2Jb\nc\u202ed ü\xff"); got != "a\uFFFD[2Jb\uFFFDc\uFFFDd ü\uFFFD" {
		t.Errorf("%q", got)
	}
}

func TestNotice(t *testing.T) {
	held := &pawl.Info{Holders: make([]driver.Held, 1)}
	held.Holders[0].User, held.Holders[0].Host, held.Holders[0].PID = "alice", "ci-7", 812
	for _, c := range []struct {
		n    notice
		want string
	}{
		{notice{info: nil, ahead: -1}, `pawl: waiting for "x"`},
		{notice{info: held, ahead: 2}, `pawl: waiting for "x": held by alice@ci-7 (pid 812); 2 ahead of you`},
		{notice{info: held, ahead: -1}, `pawl: waiting for "x": held by alice@ci-7 (pid 812)`},
		{notice{info: &pawl.Info{}, ahead: 0}, `pawl: waiting for "x"; you are next`},
		{notice{info: &pawl.Info{}, ahead: 0, quarantine: 28100 * time.Millisecond}, `pawl: waiting for "x": the server has just started or lost its data, ` +
			`and grants nothing for 29s more (see pawl bless --help)`},
		{notice{ahead: -1, failed: context.DeadlineExceeded, away: 11200 * time.Millisecond}, `pawl: waiting for "x": redis://h does not answer, for 12s now`},
		{notice{ahead: -1, failed: &pawl.Error{Op: "inspect", Name: "x", Err: fmt.Errorf("%w: connection refused", pawl.ErrUnavailable)}, away: time.Second},
			`pawl: waiting for "x": redis://h does not answer, for 1s now (connection refused)`},
		{notice{info: held, ahead: 0, back: 3 * time.Second}, `pawl: waiting for "x": redis://h answers again, after 3s: held by alice@ci-7 (pid 812); you are next`},
	} {
		if got := c.n.line("x", &url.URL{Scheme: "redis", Host: "h"}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	var b strings.Builder
	log := slog.New(warnings{&b})
	log.Info("nobody needs to know")
	log.Warn("the directory is on a network file system", "dir", "/nfs/locks\n", "type", "NFS")
	if got, want := b.String(), "pawl: warning: the directory is on a network file system; dir: /nfs/locks"; !strings.HasPrefix(got, want) ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("got %q, want one line beginning with %q", got, want)
	}
}

func TestNoticeOfOwnLease(t *testing.T) {
	host, _ := os.Hostname()
	own := notice{info: &pawl.Info{Holders: []driver.Held{{Holder: pawl.Holder{PID: os.Getpid(), Host: host, Space: driver.PIDSpace()}}}}}
	other := notice{info: &pawl.Info{Holders: []driver.Held{{Holder: pawl.Holder{PID: os.Getpid(), Host: host + "2", Space: driver.PIDSpace()}}}}}
	if !own.mine(os.Getpid()) || other.mine(os.Getpid()) || (notice{}).mine(os.Getpid()) {
		t.Errorf("mine: own %v, other %v, unknown %v", own.mine(os.Getpid()), other.mine(os.Getpid()), notice{}.mine(os.Getpid()))
	}
}

func TestFlagNames(t *testing.T) {
	f := asFailure((&runner{runArgs: &runArgs{name: "TTL"}, store: &store{}}).lost(&pawl.LostError{Reason: driver.Limit}, "it ended"))
	if got := f.line(); !strings.HasPrefix(got, `pawl: lost: "TTL": `) || !strings.Contains(got, "as --max-hold allows") || strings.Contains(got, "MaxHold") {
		t.Errorf("%s", got)
	}
}

func TestClockOfTheStore(t *testing.T) {
	for _, c := range []struct {
		by   time.Duration
		want string
	}{
		{time.Hour, "set forward by 1h0m0s: locks may have ended early"},
		{-time.Minute, "set back by 1m0s: locks of crashed holders last"},
	} {
		said, told := new(lines), new(lines)
		r := &runner{runArgs: &runArgs{name: "x"}, stderr: said, events: newEvents(told)}
		r.stepped(pawl.Event{Server: "redis://host", Step: c.by})
		r.events.close()
		if !strings.Contains(told.String(), `"event":"clock"`) || !strings.Contains(told.String(), c.want) {
			t.Errorf("the event is %s; want %q", told, c.want)
		}
		if !poll(func() bool {
			return strings.HasPrefix(said.String(), "pawl: warning: the clock of redis://host was "+c.want)
		}) {
			t.Errorf("stderr is %q; want %q", said, c.want)
		}
	}
}

func TestSilentStoreIsTold(t *testing.T) {
	const want = "redis://host does not answer, for 12s now"
	said, told := new(lines), new(lines)
	r := &runner{runArgs: &runArgs{name: "x"}, stderr: said, events: newEvents(told)}
	r.silent(pawl.Event{Server: "redis://host", Waited: 12 * time.Second})
	r.events.close()
	if !strings.Contains(told.String(), `"event":"silent"`) || !strings.Contains(told.String(), want) {
		t.Errorf("the event is %s; want %q", told, want)
	}
	if !poll(func() bool { return strings.HasPrefix(said.String(), "pawl: warning: "+want) }) {
		t.Errorf("stderr is %q; want %q", said, want)
	}
}

// lines is what was written, by any goroutine.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
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
