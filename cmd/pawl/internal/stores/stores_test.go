// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver"
)

var testScheme = sync.OnceFunc(func() {
	pawl.Register("test", func(context.Context, string, *pawl.Options) (driver.Store, error) { return nil, errors.ErrUnsupported })
})

// TestEveryStoreIsIn: no store is left out of the command.
func TestEveryStoreIsIn(t *testing.T) {
	known := slices.DeleteFunc(pawl.Schemes(), func(s string) bool { return s == "test" || s == "mem" || s == "memory" })
	if got := strings.Join(known, " "); got != "etcd etcds file postgres postgresql redis rediss redlock unix zk zks" {
		t.Errorf("the schemes are %s", got)
	}
}

// TestReadmeNamesEveryPackage: the error of pawl.Open for a scheme that is not registered leads to the README, which
// names the package to import. The library itself does not know the stores.
func TestReadmeNamesEveryPackage(t *testing.T) {
	_, err := pawl.Open(t.Context(), "nonsense://h", nil)
	if err == nil || !strings.Contains(err.Error(), "https://github.com/pawl-go/pawl#stores") {
		t.Errorf("the error is %v", err)
	}
	readme, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Stores\n")
	section, _, _ = strings.Cut(section, "\n## ")
	files, _ := filepath.Glob("*.go")
	known := map[string]bool{"memlock": true}
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, m := range regexp.MustCompile(`"github.com/pawl-go/pawl/((?:[a-z]+/)?[a-z]+lock)"`).FindAllSubmatch(text, -1) {
			known[string(m[1])] = true
		}
	}
	if len(known) < 7 {
		t.Errorf("the stores are %v", known)
	}
	for path := range known {
		if !strings.Contains(section, "pawl/"+path+"`") && !strings.Contains(section, "…/"+path+"`") {
			t.Errorf("the section about stores does not name the package %s", path)
		}
	}
}

func TestStoreURL(t *testing.T) {
	testScheme()
	u := func(s string) string {
		p, err := Parse(s)
		if err != nil {
			return err.Error()
		}
		return p.String()
	}
	for _, c := range [][2]string{
		{"file:///dir", "file:///dir"},
		{"FILE:/dir", "file:/dir"},
		{" file:/dir\n", "file:/dir"},
		{"postgres://", "postgres://"}, // PostgreSQL's variables say the rest
		{"postgres://?sslmode=disable", "postgres://?sslmode=disable"},
		{"test://u:secret@h/0", "test://u@h/0"},
		{"test://secret@h/0", "test://h/0"},
		{"test://u@h/0?password_file=F", "test://u@h/0?password_file=F"},
		{"test://h/0?password=secret&ttl=1s", "test://h/0?ttl=1s"},
		{"test://me:secret@h1:1,h2,[::1]:3/0", "test://me@h1:1,h2,[::1]:3/0"},
		{"test://h/0?password_file=F&sentinel_password=secret", "test://h/0?password_file=F"},
	} {
		if got := u(c[0]); got != c[1] || SameStore(got) == "" {
			t.Errorf("%q: %q, want %q, which can be typed again", c[0], got, c[1])
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

// TestUserWithoutPassword: a command to copy logs in as the same user, or is none.
func TestUserWithoutPassword(t *testing.T) {
	for _, c := range []struct{ env, text, shown, flag string }{
		{"", "postgres://app@h/db", "postgres://app@h/db", " -s postgres://app@h/db"},
		{"", "postgresql://app@h/db", "postgresql://app@h/db", " -s postgresql://app@h/db"},
		{"", "redis://app@h/0", "redis://h/0", " -s URL"},
		{"", "redis://app:secret@h/0", "redis://app@h/0", " -s redis://app@h/0"},
		{"", "redis://:secret@h/0", "redis://h/0", " -s redis://h/0"},
		{"PAWL_REDIS_PASSWORD", "redis://app@h/0", "redis://app@h/0", " -s redis://app@h/0"},
		{"PAWL_REDIS_PASSWORD", "redlock://app@a,b,c", "redlock://app@a,b,c", " -s redlock://app@a,b,c"},
		{"PAWL_REDIS_PASSWORD", "zk://app@h", "zk://h", " -s URL"},
		{"PAWL_ZK_PASSWORD", "zks://app@h", "zks://app@h", " -s zks://app@h"},
		{"PAWL_ETCD_PASSWORD", "etcd://app@h", "etcd://app@h", " -s etcd://app@h"},
	} {
		t.Run(c.text, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, "secret")
			}
			u, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := u.String(); got != c.shown {
				t.Errorf("shown as %s, want %s", got, c.shown)
			}
			if got := SameStore(c.text); got != c.flag {
				t.Errorf("to be typed as %q, want %q", got, c.flag)
			}
		})
	}
}

// TestWrongURL: the error names what is wrong, unless it may be a password, and what to type.
func TestWrongURL(t *testing.T) {
	for text, want := range map[string]string{
		"redis://localhost:99999": `the URL of the redis store cannot be parsed; a port is 1 to 65535;`,
		"zk://localhost:abc":      `the URL of the zk store cannot be parsed; a port is 1 to 65535;`,
		"redis://me:hunter2":      `the URL of the redis store cannot be parsed; a port is 1 to 65535;`,
		"localhost":               `the store, "localhost", is not a URL: it has no scheme; did you mean redis://localhost?`,
		"hunter2":                 `the store is not a URL: it has no scheme; use a URL such as`,
		" ":                       `the store is not a URL`,
	} {
		_, err := Parse(text)
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		if f := exit.As(err); f.Code != exit.Config || !strings.Contains(f.Error(), want) {
			t.Errorf("%q: exit %d, %s\nwant %s", text, f.Code, f.Error(), want)
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
		s, err := Parse(scheme + ":" + before + ":" + secret + after)
		if err != nil {
			if f := exit.As(err); f.Code != exit.Config || strings.Contains(f.Line(), secret) {
				t.Fatalf("%s", f.Line())
			}
			return
		}
		if s.url.User != nil && strings.Contains(s.String(), secret) && !strings.Contains(s.url.Path+s.url.Host+s.url.User.Username()+s.url.RawQuery+s.url.Fragment, secret) {
			t.Fatalf("%s", s)
		}
	})
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
