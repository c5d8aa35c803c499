// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

var (
	errClosed = fmt.Errorf("etcdlock: %w", driver.ErrClosed)
	// errUnproven says that the present leader may not have carried out a renewal.
	errUnproven = errors.New("etcdlock: the cluster has changed its leader meanwhile")
)

type hint struct {
	err     error
	do      string
	lasting bool
	silent  bool
	kind    error // for storekit.OfKind
}

// hints are advice on the errors by which a server refuses a request. The server has recorded nothing then, except
// with ErrNoSpace. An error with silent comes from a single member that has no leader, so the cluster has not
// answered.
var hints = []hint{
	{rpctypes.ErrPermissionDenied, "the user may not read and write keys with this prefix: grant it readwrite, see docs/etcd-protocol.md", true, false, storekit.ErrDenied},
	{rpctypes.ErrAuthFailed, "the server refuses this user or password: correct them in the URL", true, false, storekit.ErrDenied},
	{rpctypes.ErrUserEmpty, "the server wants a user: use etcd://USER:PASSWORD@host, or etcd://USER@host?password_file=FILE", true, false, storekit.ErrDenied},
	{rpctypes.ErrInvalidAuthToken, "the server does not accept the token of this client: check the password, and that all members have the same --auth-token", false, false, nil},
	{rpctypes.ErrNoSpace, "the server's database is full: compact and defragment it, then etcdctl alarm disarm", false, false, nil},
	{rpctypes.ErrCorrupt, "the data of the members differ: the cluster grants no lease and ends none. Replace the member that etcdctl alarm list names, then etcdctl alarm disarm", false, false, nil},
	{rpctypes.ErrTooManyRequests, "the server has too many requests to answer: see etcdctl check perf, and its log for slow disks", false, false, nil},
	{rpctypes.ErrRequestTooLarge, "the request is larger than the server allows: shorten the name or the reason (Why), or raise --max-request-bytes of the servers", true, false, nil},
	{rpctypes.ErrNoLeader, "the cluster has no leader: check that a majority of its members runs, and that they reach one another", false, true, nil},
	{rpctypes.ErrUnhealthy, "the cluster is unhealthy: see etcdctl endpoint health --cluster", false, true, nil},
	{rpctypes.ErrNotCapable, "the cluster is older than etcd 3.4: upgrade it", true, false, nil},
}

// refused returns the hint for err, or nil if err does not say that the server has refused the request.
func refused(err error) *hint {
	i := slices.IndexFunc(hints, func(h hint) bool { return errors.Is(err, h.err) })
	if i < 0 {
		return nil
	}
	return &hints[i]
}

// failure returns a *driver.Failure for the error of a request. writes is true if the request may have recorded
// something. ctx is the caller's context; the request may have had less time.
func (s *store) failure(ctx context.Context, err error, writes bool) *driver.Failure {
	if f, is := errors.AsType[*driver.Failure](err); is {
		return f
	}
	if h := refused(err); h != nil {
		f := &driver.Failure{Err: fmt.Errorf("%w: %s", err, h.do), Lasting: h.lasting, Silent: h.silent}
		if h.kind != nil {
			f.Err = fmt.Errorf("%w: %w", driver.ErrUnavailable, storekit.OfKind(h.kind, f.Err))
		}
		// etcd also returns ErrNoSpace for the transaction that has filled the space, which it has carried out.
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

// outOfTime reports whether a request has timed out, at the client or at the server.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded ||
		strings.HasSuffix(err.Error(), context.DeadlineExceeded.Error()) || strings.Contains(err.Error(), "request timed out")
}

// explain adds the members' addresses to a transport error, and the reason if there is no connection. It hides the
// deadline of the request: a context error must come from the caller's context.
func (s *store) explain(err error) error {
	if !outOfTime(err) {
		return fmt.Errorf("%s: %w", s.where, err)
	}
	if s.client.ActiveConnection().GetState() == connectivity.TransientFailure {
		ctx, cancel := context.WithTimeout(s.ctx, silence)
		defer cancel()
		return fmt.Errorf("%s: no answer: %w", s.where, s.dialError(ctx))
	}
	return fmt.Errorf("%s: no answer in time: check that the cluster runs and has a leader: etcdctl endpoint status --cluster", s.where)
}

// dialError returns the reason why there is no connection. It sends a request that fails at once without a
// connection.
func (s *store) dialError(ctx context.Context) error {
	_, err := pb.NewKVClient(s.client.ActiveConnection()).Range(ctx, &pb.RangeRequest{Key: []byte(s.prefix)}, grpc.WaitForReady(false))
	if err == nil { // there is a connection now
		return errors.New("the connection was lost while it was being made: try again")
	}
	return errors.New(dialHint(errors.New(status.Convert(err).Message())))
}

// dialHint adds advice to the error of a connection attempt.
func dialHint(err error) string {
	text := err.Error()
	switch hint := storekit.DialHint(err, "etcd"); {
	case hint != "":
		return text + ": " + hint
	case strings.Contains(text, "handshake failed: EOF"), strings.Contains(text, "handshake failed") && strings.Contains(text, "connection reset"):
		// The error depends on how much of the TLS hello the server has read.
		return text + ": if this port has no TLS use etcd:// instead of etcds://"
	case strings.Contains(text, "server preface"):
		return text + ": is it an etcd server, with TLS (etcds://) or without (etcd://)?"
	}
	return text
}
