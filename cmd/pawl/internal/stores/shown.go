// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
)

// SameStore returns --store as it was given, less the password, for a command that is to be typed next;
// or "" if it was not given: $PAWL_STORE and the default hold there too. The word URL stands for one
// whose user is hidden: without the user a command would log in as another one.
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

// passwordEnv has the variables with the passwords of stores, by scheme.
var passwordEnv = map[string]string{"etcd": "PAWL_ETCD_PASSWORD", "etcds": "PAWL_ETCD_PASSWORD", "zk": "PAWL_ZK_PASSWORD", "zks": "PAWL_ZK_PASSWORD",
	"redis": "PAWL_REDIS_PASSWORD", "rediss": "PAWL_REDIS_PASSWORD", "redlock": "PAWL_REDIS_PASSWORD", "unix": "PAWL_REDIS_PASSWORD"}

// hidesUser reports whether String leaves out the user. It does if there is no password: in redis://SECRET@host the
// password stands in the user's place. PostgreSQL has users without a password, so their names are shown.
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

// withSlashes returns u as text that can be parsed again: String leaves out the slashes of a URL that has nothing
// behind them, as postgres:// whose host is in $PGHOST.
func withSlashes(u *url.URL) string {
	scheme, rest, _ := strings.Cut(u.String(), ":")
	if scheme == "file" || scheme == "mem" || strings.HasPrefix(rest, "//") {
		return u.String()
	}
	return scheme + "://" + rest
}

// isSecret does not mean the name of a file in which a secret is.
func isSecret(key string) bool {
	key = strings.ToLower(key)
	return !strings.HasSuffix(key, "_file") && slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "auth", "key"},
		func(word string) bool { return strings.Contains(key, word) })
}
