// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// URL is the URL of a store. Its String method hides passwords.
type URL struct {
	Scheme string
	url    *url.URL
}

// Parse parses the URL of a store. Its errors contain only parts of the text that
// cannot be a password, such as the scheme: a password may be in an unexpected place. Spaces around the URL do
// not count: a line break may come from a file.
func Parse(text string) (*URL, error) {
	text = strings.TrimSpace(text)
	scheme, _, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) {
		return nil, noScheme(text)
	}
	scheme = strings.ToLower(scheme)
	if known := pawl.Schemes(); !slices.Contains(known, scheme) {
		return nil, unknownScheme(text, scheme, known)
	}
	parse := storekit.ParseURL
	if scheme == "file" {
		parse = url.Parse // an @ may be part of a directory's name
	}
	u, err := parse(text)
	if scheme != "file" && scheme != "mem" && !strings.HasPrefix(text[len(scheme)+1:], "//") {
		return nil, exit.Fail(exit.Config, fmt.Sprintf("the URL of the %s store does not begin with %[1]s://", scheme), "write it as in "+example(scheme))
	}
	if err != nil {
		return nil, exit.Fail(exit.Config, fmt.Sprintf("the URL of the %s store cannot be parsed", scheme),
			"a port is 1 to 65535; use %xx for special characters in a password; see pawl --help")
	}
	return &URL{scheme, u}, nil
}

// noScheme returns the failure for a text that does not begin with a scheme.
func noScheme(text string) error {
	what := "the store"
	if text != "" && text == strings.TrimSpace(os.Getenv("PAWL_STORE")) {
		what = "$PAWL_STORE"
	}
	if isHost(text) {
		what += ", " + strconv.Quote(text) + ","
	}
	return exit.Fail(exit.Config, what+" is not a URL: it has no scheme",
		didYouMean(text)+"use a URL such as file:///var/lib/pawl or redis://localhost:6379, or leave --store and $PAWL_STORE out")
}

// unknownScheme returns the failure for a scheme that no store has.
func unknownScheme(text, scheme string, known []string) error {
	clients := map[string]string{"etcd": "etcd", "etcds": "etcd", "postgres": "PostgreSQL", "postgresql": "PostgreSQL"}
	if client := clients[scheme]; client != "" {
		return exit.Fail(exit.Config, "this pawl was built without the client of "+client,
			"install one with it: go install github.com/pawl-go/pawl/cmd/pawl@latest")
	}
	hint := "known are: " + strings.Join(known, ", ") + "; write it as in "
	if meant := storekit.Nearest(scheme, known, otherSchemes); meant != "" {
		hint = "did you mean " + meant + "://? " + hint + example(meant)
	} else {
		hint += "redis://localhost:6379"
	}
	return exit.Fail(exit.Config, fmt.Sprintf("unknown kind of store %q", display.Shorten(scheme, 40)), didYouMean(text)+hint)
}

// otherSchemes maps words that users may try as a scheme to the schemes of pawl.
var otherSchemes = map[string]string{"valkey": "redis", "valkeys": "rediss", "zookeeper": "zk", "pg": "postgres", "psql": "postgres", "pgsql": "postgres", "jdbc": "postgres", "dir": "file"}

// example returns an example of a URL with a scheme.
func example(scheme string) string {
	switch scheme {
	case "postgres", "postgresql":
		return scheme + "://USER@HOST:PORT/DATABASE"
	case "file":
		return "file:///DIR"
	}
	return scheme + "://HOST:PORT"
}

// isHost reports whether s is certainly a host: localhost or an IP address. Any other word may be a password.
func isHost(s string) bool { return s == "localhost" || net.ParseIP(s) != nil }

// didYouMean proposes a URL if text is the path of a directory or the address of a server. It returns ""
// for any other text, which may be a password.
func didYouMean(text string) string {
	public, _, _ := strings.Cut(text, "?")
	address, _, _ := strings.Cut(public, "/")
	host, port, err := net.SplitHostPort(address)
	if isHost(address) {
		host, port, err = address, "6379", nil
	}
	if _, number := strconv.ParseUint(port, 10, 16); err == nil && number == nil && isHost(host) {
		return "did you mean " + cmp.Or(ports[port], "redis") + "://" + public + "? "
	}
	parent := path.Dir(text)
	if !path.IsAbs(text) || parent == "/" || strings.ContainsAny(text, ":@") {
		return ""
	}
	if dir, err := os.Stat(parent); err != nil || !dir.IsDir() {
		return ""
	}
	return "did you mean " + (&url.URL{Scheme: "file", Path: text}).String() + "? "
}

// CheckName returns an error unless a lock can have the name. If --store is missing and name looks like the URL
// of a store, the user has probably left out --store; the error then does not repeat the URL, which may contain
// a password.
func CheckName(name, store string) error {
	if what, write := LikeStore(name); what != "" && store == "" {
		return exit.Usage("the name of the lock looks like the "+what, "use both: "+write+" NAME")
	}
	if err := driver.CheckName(name); err != nil {
		return exit.Usage(err.Error(), "")
	}
	return nil
}

// LikeStore returns what arg looks like and how to write it with --store, if the user probably meant it for
// --store; otherwise it returns "". The texts contain only the scheme and the port of arg: the rest may be a password.
func LikeStore(arg string) (what, write string) {
	if scheme, _, ok := strings.Cut(arg, "://"); ok && slices.Contains(pawl.Schemes(), scheme) {
		return "URL of a store", "--store " + scheme + "://…"
	}
	host, port, err := net.SplitHostPort(arg)
	if scheme := ports[port]; err == nil && scheme != "" && host != "" {
		return "address of a store", "--store " + scheme + "://HOST:" + port
	}
	return "", ""
}

// ports has the scheme for each default port of a server.
var ports = map[string]string{"5432": "postgres", "6379": "redis", "2181": "zk", "2379": "etcd"}

// isScheme reports whether s is a scheme by RFC 3986.
func isScheme(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || !('0' <= r && r <= '9' || strings.ContainsRune("+-.", r))) {
			return false
		}
	}
	return s != ""
}
