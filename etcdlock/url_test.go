// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	t.Setenv(passwordEnv, "")
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("from a file\n"), 0o600))
	for _, c := range []struct {
		url, user, password, prefix string
		endpoints                   []string
	}{
		{"etcd://", "", "", "", []string{"http://localhost:2379"}},
		{"etcd://h1", "", "", "", []string{"http://h1:2379"}},
		{"etcd://h1:1,h2,h3:3", "", "", "", []string{"http://h1:1", "http://h2:2379", "http://h3:3"}},
		{"etcds://h1:1,[::1]:2/app/locks", "", "", "app/locks", []string{"https://h1:1", "https://[::1]:2"}},
		{"etcd://me:p%40ss@h1/p?connect_timeout=2s", "me", "p@ss", "p", []string{"http://h1:2379"}},
		{"etcd://me@h1?password_file=" + file, "me", "from a file", "", []string{"http://h1:2379"}},
	} {
		a, err := parseURL(c.url, &Options{})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if !slices.Equal(a.urls, c.endpoints) || a.opts.Username != c.user || a.opts.Password != c.password || a.opts.Prefix != c.prefix {
			t.Errorf("%s: %+v", c.url, a)
		}
		if tls := a.opts.TLS != nil; tls != strings.HasPrefix(c.url, "etcds") {
			t.Errorf("%s: TLS %v", c.url, tls)
		}
	}
}

func TestWrongURLsDoNotTellThePassword(t *testing.T) {
	for _, url := range []string{
		"etcd://me:secret/more@h1", "etcd://me:some@secret/more@h1", "etcd://me:some@secret?more@h1", "etcd://me:secret?@h1", "etcd://me:sec%ret@h1", "redis://me:secret@h1", "etcd:me:secret@h1",
		"etcd://me:secret@h1,:1", "etcd://me:secret@h1:x", "etcd://me:secret@h1?nothing=1", "etcd://me:secret@h1?ca_file=x",
		"etcds://me:secret@h1?ca_file=/no/such/file", "etcd://me:secret@h1?connect_timeout=x", "etcd://me:secret@h1#x",
	} {
		_, err := NewStore(t.Context(), url, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want an error without the password", url, err)
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
