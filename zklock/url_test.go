// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestURL(t *testing.T) {
	t.Setenv(passwordEnv, "from the environment")
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("from a file\n"), 0o600))
	for url, want := range map[string]place{
		"zk://h":                          {addrs: []string{"h:2181"}},
		"zk://h1:2182,h2,h3:2183/":        {addrs: []string{"h1:2182", "h2:2181", "h3:2183"}, opts: Options{Root: "/"}},
		"zk://[::1]:2182,[::2]/a/b":       {addrs: []string{"[::1]:2182", "[::2]:2181"}, opts: Options{Root: "/a/b"}},
		"zk://h/locks/?tick_time=3s":      {addrs: []string{"h:2181"}, opts: Options{Root: "/locks", TickTime: 3 * time.Second}},
		"zk://me:s%2Fcret@h1,h2":          {addrs: []string{"h1:2181", "h2:2181"}, opts: Options{Username: "me", Password: "s/cret"}},
		"zk://me@h":                       {addrs: []string{"h:2181"}, opts: Options{Username: "me", Password: "from the environment"}},
		"zk://me@h?password_file=" + file: {addrs: []string{"h:2181"}, opts: Options{Username: "me", Password: "from a file"}},
		"zk://h?connect_timeout=250ms":    {addrs: []string{"h:2181"}, opts: Options{ConnectTimeout: 250 * time.Millisecond}},
	} {
		p, err := parseURL(url, &Options{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		o, w := p.opts, want.opts
		if !slices.Equal(p.addrs, want.addrs) || o.Root != cmp.Or(w.Root, defaultRoot) || o.Username != w.Username || o.Password != w.Password ||
			o.TickTime != w.TickTime || o.ConnectTimeout != w.ConnectTimeout {
			t.Errorf("%s: read as %v %+v", url, p.addrs, o)
		}
	}
}

func TestWrongURLs(t *testing.T) {
	t.Setenv(passwordEnv, "")
	for url, want := range map[string]string{
		"zk://":                                  "not an address",
		"zk:h":                                   "like zk://",
		"http://h":                               "use the scheme zk",
		"zk://h1,,h2":                            "not an address",
		"zk://h1:2181:2182":                      "not an address",
		"zk://me:s3cret/x@h":                     "special characters",
		"zk://me:s3cret?x@h":                     "special characters",
		"zk://me:x@s3cret/x@h":                   "special characters",
		"zk://me:x@s3cret?x@h":                   "special characters",
		"zk://me:x@s3cret#x@h":                   "special characters",
		"zk://me:s3cret%zz@h":                    "special characters",
		"zk://me:s3cret":                         "special characters",
		"zk://h?tick_time=9s;connect_timeout=1s": "put & between them",
		"zk://me:s3cret@h?nonsense=1":            "no such parameter",
		"zk://me:s3cret@h?tick_time=soon":        "tick_time",
		"zk://me:s3cret@h?password_file=/no/no":  "password_file",
		"zk://:s3cret@h":                         "without a user",
		"zk://me@h":                              "without a password",
		"zk://a%3Ab:s3cret@h":                    "colon",
		"zk://me:s3cret@h/zookeeper":             "root",
		"zk://me:s3cret@h/a//b":                  "root",
		"zk://me:s3cret@h/a/../b":                "root",
		"zk://me:s3cret@h/%F0%9F%94%92":          "does not accept",
		"zk://me:s3cret@h?ca_file=/x":            "zks://",
		"zks://me:s3cret@h?ca_file=/no/no":       "no such file",
	} {
		_, err := parseURL(url, &Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", url, err, want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error has the password: %v", url, err)
		}
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
