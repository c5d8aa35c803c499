// SPDX-License-Identifier: Apache-2.0

// Package storekit has what stores on a network share: it reads URLs, passwords and TLS files, gathers
// requests into batches, writes the records of holders, and says what to do about errors. It depends only
// on the standard library.
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

// ParseURL is url.Parse for the URL of a store. Host may be several hosts, separated by
// commas. No @ may follow the hosts.
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
	// A / or ? in a password cuts the authority short: an @ is then left in the tail. An error
	// must show nothing before that @, because it may be part of the password.
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

// Param is a parameter of a URL. Either Read gets the last value, or Values gets all values.
type Param struct {
	Name   string
	Read   func(value string) error
	Values *[]string
}

// Set returns a parameter whose value read converts and stores in *to.
func Set[T any](name string, to *T, read func(string) (T, error)) Param {
	return Param{Name: name, Read: func(v string) (err error) {
		*to, err = read(v)
		return err
	}}
}

// Text, for Set, returns the value as it is.
func Text(v string) (string, error) { return v, nil }

// Duration, for Set, reads a duration of more than zero; zero would mean that it is not set.
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

// Bool, for Set, reads true or false.
func Bool(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%q is not a truth value: use true or false", driver.Shorten(v))
	}
	return b, nil
}

// Int, for Set, reads a whole number.
func Int(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number: use one such as 3", driver.Shorten(v))
	}
	return n, nil
}

// ReadPassword, for Set, returns the password in a file, without the line break at its end.
func ReadPassword(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimRight(string(b), "\r\n"), err
}

// ErrQuery says that the parameters of a URL cannot be read. Ignoring some of them would
// change the settings that the user asked for.
var ErrQuery = errors.New("the parameters cannot be read: put & between them and write special characters as %xx")

var errTTL = errors.New("ttl: the TTL is no parameter of the URL: set Options.TTL in Go, or --ttl of the command")

// ReadQuery reads the parameters of a URL, in the order of params. If the URL has another
// parameter, it returns an error that names params.
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

// Misspelt returns an error if parameter is not one of names but looks like one.
func Misspelt(parameter string, names []string) error {
	meant := Nearest(parameter, names, nil)
	if meant == "" || meant == parameter {
		return nil
	}
	return fmt.Errorf("%s: there is no such parameter: did you mean %s?", driver.Shorten(parameter), meant)
}

// ReadUser sets *name and *password to what the URL says. If there is no password in either, it reads
// the environment variable env.
func ReadUser(u *url.Userinfo, env string, name, password *string) {
	*name = cmp.Or(u.Username(), *name)
	if p, ok := u.Password(); ok {
		*password = p
	} else {
		*password = cmp.Or(*password, os.Getenv(env))
	}
}
