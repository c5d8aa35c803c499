// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// answers are errors that a server has sent. If a request has one of them, the server has not carried it out.
var answers = []error{
	zk.ErrAPIError, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists,
	zk.ErrNotEmpty, zk.ErrSessionExpired, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrNothing, zk.ErrSessionMoved,
	zk.ErrReconfigDisabled, zk.ErrBadArguments, zk.ErrInvalidPath,
}

// otherAnswer begins the text of a server's answer for which package zk has no error value.
const otherAnswer = "unknown error: "

func answered(err error) bool {
	for _, a := range answers {
		if errors.Is(err, a) {
			return true
		}
	}
	return strings.HasPrefix(err.Error(), otherAnswer)
}

// unknown reports whether the servers may have carried out a request that has failed with err. ErrNoServer says
// that package zk has not sent the request.
func unknown(err error) bool {
	return err != nil && !answered(err) && !errors.Is(err, zk.ErrNoServer)
}

// passing reports whether a request that has failed with err may succeed when it is repeated. Use it only for
// requests that may be carried out twice.
func passing(err error) bool {
	return !answered(err) || errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, errYoung) ||
		err.Error() == otherAnswer+"-127" // throttled
}

// lasting reports whether a request that has failed with err would fail again.
func lasting(err error) bool {
	for _, l := range []error{zk.ErrAuthFailed, zk.ErrNoAuth, errors.ErrUnsupported, errClosed, errOverflow, errEpochs, errTooSlow, errBack, errEndless} {
		if errors.Is(err, l) {
			return true
		}
	}
	_, is := errors.AsType[*driver.SlotsError](err)
	return is
}

var errEndless = errors.New("a node that never ends keeps the name")

// errEndless returns an error that names a node that is not ephemeral. Another program has made it, or a person by
// hand. The servers grant the name to nobody until it is deleted.
func (s *store) errEndless(name, path string) error {
	text, do := s.endless(name, path)
	return fmt.Errorf("%w: %s; %s", errEndless, text, do)
}

func (s *store) endless(name, path string) (text, do string) {
	return fmt.Sprintf("the node %q is not ephemeral, so another program has made it: the lock %q cannot be granted", path, name),
		"find out who made it, then run: zkCli.sh -server " + s.addrs[0] + " delete " + storekit.ShellQuote(path)
}

// failure returns a *driver.Failure for a request that has failed with err. If left is true, the servers have the
// lease's node, or may have it.
func failure(ctx context.Context, err error, left bool) *driver.Failure {
	f := &driver.Failure{Err: err, Maybe: left}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return f
	}
	f.Lasting, f.Passing = lasting(err), errors.Is(err, errGone) || errors.Is(err, errOver)
	f.Silent = !f.Lasting && !f.Passing && !answered(err) && !errors.Is(err, errEnded)
	if !errors.Is(err, driver.ErrUnavailable) {
		f.Err = explain(err)
	}
	return f
}

// explain adds advice to a server's answer.
func explain(err error) error {
	hint, kind := "", error(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		kind = storekit.ErrDenied
		hint = "the nodes belong to another user, or the password is wrong: put user and password into the URL, as zk://USER:PASSWORD@host, or have the ACL of the root changed"
	case errors.Is(err, zk.ErrAuthFailed):
		kind = storekit.ErrDenied
		hint = "the servers refuse this user or password: correct them in the URL"
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		hint = "a node above is ephemeral: use another root"
	case errors.Is(err, zk.ErrInvalidACL):
		hint = "the servers do not accept an ACL of this user: enable the digest scheme on them, or use a URL without a user"
	case err.Error() == otherAnswer+"-6":
		kind = errors.ErrUnsupported
		hint = "the servers have no container nodes: use ZooKeeper 3.5.3 or later"
	case err.Error() == otherAnswer+"-125":
		hint = "the quota of the root is used up: raise it"
	default:
		return err
	}
	return storekit.OfKind(kind, fmt.Errorf("%w: %s", err, hint))
}

// dialHint adds advice to the error of a connection attempt.
func dialHint(err error) error {
	hint := storekit.DialHint(err, "zk")
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		hint = "the server has closed the connection: has this machine as many connections to it as maxClientCnxns allows, and is this its port with TLS (zks://) or without (zk://)?"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

var errNoAnswer = errors.New("a server was reached, but has not begun a session: has the ensemble a quorum, " +
	"has this machine as many connections to it as maxClientCnxns allows (a client has one for each TTL), " +
	"and is this the port for clients, with zk:// or zks:// as it is configured?")

func unavailable(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
