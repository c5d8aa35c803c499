// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	for s, want := range map[string]string{
		"x://":                           "",
		"x://h1/p":                       "h1",
		"x://h1:1,h2,[::1]:3?a=b":        "h1:1,h2,[::1]:3",
		"x://me:s%2Fcret@h1,h2:2":        "h1,h2:2",
		"x://h,":                         "h,",
		"x://me:a@b@h":                   "h",
		"unix:///run/redis.sock?db=3":    "",
		"x://h/a%40b?c=%40&sentinel=%23": "h",
	} {
		if u, err := ParseURL(s); err != nil || u.Host != want {
			t.Errorf("%s: %v, %v; want the hosts %q", s, u, err, want)
		}
	}
	for _, s := range []string{
		"x", "x:h", "x:/h", "x://me:s3cret", "x://h1:1,h2:s3cret", "x://me:s3cret/more@h", "x://me:some@s3cret/more@h", "x://me:some@s3cret?more@h",
		"x://me:some@s3cret#more@h", "x://me:s3cret%zz@h", "x://me:s3cret@h#x", "x://me:s3cret@h o", "x://h:65536", "x://h1:1,h2:0", "x://h:99999999999999999999", "x://me:s3cret@[h", "x://me:s3\x7fcret@h",
	} {
		if u, err := ParseURL(s); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v, %v; want an error without the password", s, u, err)
		}
	}
}

func TestReadQuery(t *testing.T) {
	var n int
	var yes bool
	var d time.Duration
	var text string
	var all []string
	params := []Param{
		Set("n", &n, Int), Set("d", &d, Duration), Set("yes", &yes, Bool), Set("text", &text, Text), {Name: "all", Values: &all},
	}
	if err := ReadQuery("n=1&n=2&d=3s&yes=true&text=a%20b&all=x&all=y", params...); err != nil {
		t.Fatal(err)
	}
	if n != 2 || !yes || d != 3*time.Second || text != "a b" || !slices.Equal(all, []string{"x", "y"}) {
		t.Errorf("read: %v %v %q %v", n, d, text, all)
	}
	for query, want := range map[string]string{
		"n=x":       `n: "x" is not a whole number: use one such as 3`,
		"yes=yes":   `yes: "yes" is not a truth value: use true or false`,
		"n=1&m=2":   "m: there is no such parameter: did you mean n?",
		"nonsense=": "nonsense: there is no such parameter: use n, d, yes, text or all",
		"ttl=5s":    "ttl: the TTL is no parameter of the URL: set Options.TTL in Go, or --ttl of the command",
		"n=1;d=2s":  "put & between them",
		"text=%zz":  "put & between them",
		"d=2&text=": `d: "2" is not a duration: use one such as 30s`,
		"d=0":       "d: 0s is not more than zero",
		"d=-1s":     "d: -1s is not more than zero",
	} {
		if err := ReadQuery(query, params...); err == nil || !strings.HasPrefix(err.Error(), want) && !(errors.Is(err, ErrQuery) && strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
}

// TestReadUser: the URL takes precedence over the options, and these over the
// environment.
func TestReadUser(t *testing.T) {
	t.Setenv("PAWL_TEST_PASSWORD", "from the environment")
	for _, c := range []struct{ url, name, password, wantName, wantPassword string }{
		{"x://h", "", "", "", "from the environment"},
		{"x://h", "me", "mine", "me", "mine"},
		{"x://me:@h", "", "mine", "me", ""},
		{"x://me:p%40ss@h", "you", "yours", "me", "p@ss"},
		{"x://me@h", "you", "yours", "me", "yours"},
	} {
		u, err := ParseURL(c.url)
		if err != nil {
			t.Fatal(err)
		}
		name, password := c.name, c.password
		if ReadUser(u.User, "PAWL_TEST_PASSWORD", &name, &password); name != c.wantName || password != c.wantPassword {
			t.Errorf("%s over %s:%s: %s:%s", c.url, c.name, c.password, name, password)
		}
	}
}

func TestReadPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(" s3cret \r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadPassword(file); err != nil || p != " s3cret " {
		t.Errorf("%q, %v", p, err)
	}
}

func TestAddrs(t *testing.T) {
	got, ok := Addrs("h1:1,h2,[::1]:2,[::2]", "7")
	if want := []string{"h1:1", "h2:7", "[::1]:2", "[::2]:7"}; !ok || !slices.Equal(got, want) {
		t.Errorf("Addrs = %q, %t; want %q", got, ok, want)
	}
	for _, hosts := range []string{"", "h1,", "h1,,h2", ":1", "h1:1:2", "h 1"} {
		if got, ok := Addrs(hosts, "7"); ok {
			t.Errorf("Addrs(%q) = %q; want it refused", hosts, got)
		}
	}
}
