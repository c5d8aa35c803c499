// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
)

// SameStore returns the flag -s for a command that the user may type next: the URL given, without its
// password. It returns "" if --store was not given, because then the next command uses $PAWL_STORE or the
// default too. If String hides the user, it returns the word URL instead of the URL: a command
// without the user would log in as another user.
func SameStore(given string) string {
	u, err := Parse(given)
	if given == "" || err != nil {
		return ""
	}
	if u.hidesUser() {
		return " -s URL"
	}
	return " -s " + display.Quote(u.String())
}

// passwordEnv has, for each scheme, the variable with the store's password.
var passwordEnv = map[string]string{"etcd": "PAWL_ETCD_PASSWORD", "etcds": "PAWL_ETCD_PASSWORD", "zk": "PAWL_ZK_PASSWORD", "zks": "PAWL_ZK_PASSWORD",
	"redis": "PAWL_REDIS_PASSWORD", "rediss": "PAWL_REDIS_PASSWORD", "redlock": "PAWL_REDIS_PASSWORD", "unix": "PAWL_REDIS_PASSWORD"}

// hidesUser reports whether String leaves out the user. If there is no password, the user may really be the
// password, as in redis://SECRET@host, so String hides it. PostgreSQL has users without a password, so String shows
// them.
func (s *URL) hidesUser() bool {
	if s.url.User.Username() == "" || strings.HasPrefix(s.Scheme, "postgres") {
		return false
	}
	_, password := s.url.User.Password()
	return !password && !s.url.Query().Has("password_file") && os.Getenv(passwordEnv[s.Scheme]) == ""
}

// String returns the URL without the password, and without query parameters
// that look like secrets. See hidesUser for users.
func (s *URL) String() string {
	u := *s.url
	if u.User != nil {
		u.User = nil
		if name := s.url.User.Username(); name != "" && !s.hidesUser() {
			u.User = url.User(name)
		}
	}
	if u.RawQuery != "" {
		q := u.Query()
		for key := range q {
			if isSecret(key) {
				q.Del(key)
			}
		}
		u.RawQuery = q.Encode()
	}
	return withSlashes(&u)
}

// Secret returns the URL with its password.
func (s *URL) Secret() string { return withSlashes(s.url) }

// withSlashes returns u as text that Parse accepts. url.URL.String leaves out the slashes if nothing
// follows them, as in postgres://, whose host is in $PGHOST.
func withSlashes(u *url.URL) string {
	scheme, rest, _ := strings.Cut(u.String(), ":")
	if scheme == "file" || scheme == "mem" || strings.HasPrefix(rest, "//") {
		return u.String()
	}
	return scheme + "://" + rest
}

// isSecret reports whether the value of a query parameter may be a secret. The name of a file that contains a
// secret is not one.
func isSecret(key string) bool {
	key = strings.ToLower(key)
	return !strings.HasSuffix(key, "_file") && slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "auth", "key"},
		func(word string) bool { return strings.Contains(key, word) })
}
