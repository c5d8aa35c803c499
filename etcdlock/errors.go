// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

var (
	errClosed = fmt.Errorf("etcdlock: %w", driver.ErrClosed)
	// errUnproven is a renewal of which it is not clear whether the leader of now
	// has carried it out.
	errUnproven = errors.New("etcdlock: the cluster has changed its leader meanwhile")
)

type hint struct {
	err     error
	do      string
	lasting bool
	silent  bool
	kind    error // for storekit.OfKind
}

// hints say what to do about an error of the server that has refused a request.
// But for ErrNoSpace, it has recorded nothing then. A cluster without a leader has not answered: one member has.
var hints = []hint{
	{rpctypes.ErrPermissionDenied, "the user may not read and write keys with this prefix: see docs/etcd-protocol.md for the rights that it needs", true, false, storekit.ErrDenied},
	{rpctypes.ErrAuthFailed, "the server refuses this user or password", true, false, storekit.ErrDenied},
	{rpctypes.ErrUserEmpty, "the server wants a user: put it into the URL, as etcd://USER:PASSWORD@host, or the password into a file named by ?password_file=", true, false, storekit.ErrDenied},
	{rpctypes.ErrInvalidAuthToken, "the server has forgotten who we are: is the password still right, and have all members the same keys for tokens (--auth-token)?", false, false, nil},
	{rpctypes.ErrNoSpace, "the server's database is full: compact and defragment it, then etcdctl alarm disarm", false, false, nil},
	{rpctypes.ErrCorrupt, "members differ in their data, and the cluster has raised an alarm: it grants nothing, and does not end the leases of clients that have gone. Replace the member that etcdctl alarm list names, then etcdctl alarm disarm", false, false, nil},
	{rpctypes.ErrTooManyRequests, "the server is overloaded", false, false, nil},
	{rpctypes.ErrRequestTooLarge, "the request is larger than the server allows", true, false, nil},
	{rpctypes.ErrNoLeader, "the cluster has no leader: are most of its members running, and can they reach one another?", false, true, nil},
	{rpctypes.ErrUnhealthy, "the cluster is unhealthy: see etcdctl endpoint health", false, true, nil},
	{rpctypes.ErrNotCapable, "the cluster is older than etcd 3.4", true, false, nil},
}

// refused returns what to do about err if it says that the server has refused the request, or nil.
func refused(err error) *hint {
	i := slices.IndexFunc(hints, func(h hint) bool { return errors.Is(err, h.err) })
	if i < 0 {
		return nil
	}
	return &hints[i]
}

// failure says what the error of a request means; writes, of one that may have recorded something. ctx is the
// caller's: the request itself may have had less time.
func (s *store) failure(ctx context.Context, err error, writes bool) *driver.Failure {
	var f *driver.Failure
	if errors.As(err, &f) {
		return f
	}
	if h := refused(err); h != nil {
		f := &driver.Failure{Err: fmt.Errorf("%w: %s", err, h.do), Lasting: h.lasting, Silent: h.silent}
		if h.kind != nil {
			f.Err = fmt.Errorf("%w: %w", driver.ErrUnavailable, storekit.OfKind(h.kind, f.Err))
		}
		// etcd says that it is full of the transaction, too, that has filled it: that one it has carried out.
		f.Maybe = writes && h.err == rpctypes.ErrNoSpace
		return f
	}
	switch {
	case ctx.Err() != nil:
		return &driver.Failure{Err: ctx.Err(), Maybe: writes}
	case s.ctx.Err() != nil:
		return &driver.Failure{Err: errClosed, Maybe: writes, Lasting: true}
	}
	return &driver.Failure{Err: s.explain(err), Maybe: writes, Silent: true}
}

// outOfTime reports whether a request has run out of time, here or at the server.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded ||
		strings.HasSuffix(err.Error(), context.DeadlineExceeded.Error()) || strings.Contains(err.Error(), "request timed out")
}

// explain adds to an error of the transport who was asked, and what was seen when
// connecting. It hides that the request had a deadline of its own: context errors
// are the caller's alone.
func (s *store) explain(err error) error {
	if !outOfTime(err) {
		return fmt.Errorf("%s: %w", s.where, err)
	}
	if seen := s.links.lastError(); seen != nil {
		return fmt.Errorf("%s: no answer: %s", s.where, dialHint(seen))
	}
	if s.links == nil && s.client.Username != "" {
		return fmt.Errorf("%s: no answer in time: is the cluster running, and has it a leader? "+
			"(At etcd 3.4 with JWTs a client that was made elsewhere cannot log in again when its token has expired: use etcdlock.Open)", s.where)
	}
	return fmt.Errorf("%s: no answer in time: is the cluster running, and has it a leader?", s.where)
}

// dialHint says what to do about a connection that could not be made.
func dialHint(err error) string {
	text := err.Error()
	switch hint := storekit.DialHint(err, "etcd"); {
	case hint != "":
		return text + ": " + hint
	case strings.Contains(text, "handshake failed: EOF"), strings.Contains(text, "handshake failed") && strings.Contains(text, "connection reset"):
		// Which of the two it is depends on how much of the hello the server had read when it hung up.
		return text + ": if this port has no TLS use etcd:// instead of etcds://"
	case strings.Contains(text, "server preface"):
		return text + ": is it an etcd server, with TLS (etcds://) or without (etcd://)?"
	}
	return text
}
