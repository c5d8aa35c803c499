// SPDX-License-Identifier: Apache-2.0

// Package storekit is what drivers of stores across a network have in common. It reads URLs
// with passwords and files for TLS. It describes holders and tells them of losses and news. It
// reckons what a server's clock and a message that hands a name over are worth. And it has what
// clients with different MaxTTL are told. It depends only on the standard library.
//
// No error of this package contains a part of a URL that may belong to a password: in a
// wrong URL it is not clear where the password ends.
package storekit

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var errNoURL = errors.New("this is not a URL, a port is not 1 to 65535, or a special character of the password is not written as %xx")

// ParseURL is url.Parse for the URL of a store: it may name several hosts, with commas
// between them, all of which are in Host. Nothing that follows a host may contain an @.
func ParseURL(s string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil, errNoURL
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, authority = authority[:i+1], authority[i+1:]
	}
	// A / or ? in a password ends the part of the URL that it belongs to: then an @ is
	// left over, and what is before it must not be shown, not even as a host, which it
	// looks like if the password has an @, too.
	if strings.ContainsAny(tail, "@#") {
		return nil, errNoURL
	}
	u, err := url.Parse(scheme + "://" + user + "host" + tail)
	if err != nil {
		return nil, errNoURL
	}
	var hosts []string
	for host := range strings.SplitSeq(authority, ",") {
		one, err := url.Parse("any://" + host)
		if err != nil {
			return nil, errNoURL
		}
		if n, err := strconv.ParseUint(one.Port(), 10, 16); one.Port() != "" && (err != nil || n == 0) {
			return nil, errNoURL
		}
		hosts = append(hosts, one.Host)
	}
	u.Host = strings.Join(hosts, ",")
	return u, nil
}

// Param is a parameter that a URL may have: Read gets the last value, Values all of them.
// One of the two is set.
type Param struct {
	Name   string
	Read   func(value string) error
	Values *[]string
}

// Set returns the parameter that read turns into *to.
func Set[T any](name string, to *T, read func(string) (T, error)) Param {
	return Param{Name: name, Read: func(v string) (err error) {
		*to, err = read(v)
		return err
	}}
}

// Text is for Set: the value as it is.
func Text(v string) (string, error) { return v, nil }

// Duration is for Set: a duration of more than zero, which would mean that it is not set.
func Duration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration: use one such as 30s", driver.Shorten(v))
	case d <= 0:
		return 0, fmt.Errorf("%v is not more than zero: use a duration such as 30s", d)
	}
	return d, nil
}

// Bool is for Set.
func Bool(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%q is not a truth value: use true or false", driver.Shorten(v))
	}
	return b, nil
}

// Int is for Set.
func Int(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number: use one such as 3", driver.Shorten(v))
	}
	return n, nil
}

// ReadPassword is for Set: the password in a file, without the end of the line.
func ReadPassword(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimRight(string(b), "\r\n"), err
}

// ErrQuery means that parameters cannot be told apart. Ignoring what cannot be read
// would mean other settings than those that were asked for.
var ErrQuery = errors.New("the parameters cannot be read: put & between them and write special characters as %xx")

var errTTL = errors.New("ttl: the TTL is no parameter of the URL: set Options.TTL in Go, or --ttl of the command")

// ReadQuery reads the parameters of a URL, in the order of params. For any other
// parameter it returns an error that names those in params.
func ReadQuery(rawQuery string, params ...Param) error {
	q, err := url.ParseQuery(rawQuery)
	if err != nil {
		return ErrQuery
	}
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
		values := q[p.Name]
		delete(q, p.Name)
		switch {
		case len(values) == 0:
			continue
		case p.Values != nil:
			*p.Values = values
			continue
		}
		if err := p.Read(values[len(values)-1]); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	for unknown := range q {
		if unknown == "ttl" {
			return errTTL
		}
		if err := Misspelt(unknown, names); err != nil {
			return err
		}
		last := len(names) - 1
		return fmt.Errorf("%s: there is no such parameter: use %s or %s", unknown, strings.Join(names[:last], ", "), names[last])
	}
	return nil
}

// Misspelt returns an error if a parameter is not one of names and is like one of them.
func Misspelt(parameter string, names []string) error {
	meant := Nearest(parameter, names, nil)
	if meant == "" || meant == parameter {
		return nil
	}
	return fmt.Errorf("%s: there is no such parameter: did you mean %s?", driver.Shorten(parameter), meant)
}

// ReadUser sets *name and *password to what the URL has. If there is still no password, it reads
// the environment variable env.
func ReadUser(u *url.Userinfo, env string, name, password *string) {
	*name = cmp.Or(u.Username(), *name)
	if p, ok := u.Password(); ok {
		*password = p
	} else {
		*password = cmp.Or(*password, os.Getenv(env))
	}
}
