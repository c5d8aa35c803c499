// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driver"
)

// session logs a client in, and again when the cluster no longer accepts its token. A JWT expires, after five
// minutes by default. A simple token, the other kind, is lost when a member restarts.
//
// Package clientv3 can log in, too, but it sends the old token with the request for a new one. etcd 3.4 refuses
// that request if the old token has expired. So session keeps the password from clientv3, and sends no token with
// a login.
type session struct {
	username, password string

	logins sync.Mutex     // held during a login; guards the two fields below
	at     driver.Instant // when the last login ended
	err    error          // the error of the last login

	mu     sync.Mutex // guards the fields below
	token  string
	serial int // counts the tokens
}

// relogin is the least time between two logins. Checking a password costs a server much work, and a server may
// refuse even new tokens.
const relogin = time.Second

// options returns dial options that make a connection send the token.
func (s *session) options() []grpc.DialOption {
	if s == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithPerRPCCredentials(s), grpc.WithChainUnaryInterceptor(s.intercept)}
}

// loggingIn is a context key. It marks a login, which sends no token.
type loggingIn struct{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s *session) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, _ := s.current()
	if token == "" || ctx.Value(loggingIn{}) != nil {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (s *session) RequireTransportSecurity() bool { return false }

func (s *session) current() (token string, serial int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, s.serial
}

// intercept sends a request. If the server refuses the token, it has recorded nothing. Then intercept logs in and
// sends the request once more.
func (s *session) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	_, serial := s.current()
	err := invoke(ctx, method, req, reply, conn, opts...)
	if !stale(err) || ctx.Value(loggingIn{}) != nil {
		return err
	}
	if err := s.renew(ctx, conn, serial, err); err != nil {
		return err
	}
	if err = invoke(ctx, method, req, reply, conn, opts...); stale(err) {
		return fresh(err)
	}
	return err
}

func stale(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// fresh returns an error that says that the server refuses a new token. It is not the error at which clientv3
// would repeat the request.
func fresh(err error) error {
	return fmt.Errorf("with a new token: %w", rpctypes.Error(err))
}

// renew replaces the token with the given serial number, which the server has refused. The login goes on after ctx
// ends, because the server may need longer to check a password than a request may take.
func (s *session) renew(ctx context.Context, conn *grpc.ClientConn, serial int, refused error) error {
	done := make(chan error, 1)
	go func() { done <- s.login(conn, serial, refused) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) login(conn *grpc.ClientConn, serial int, refused error) error {
	s.logins.Lock()
	defer s.logins.Unlock()
	if _, now := s.current(); now != serial { // another request has logged in
		return nil
	}
	if (serial > 0 || s.err != nil) && driver.Now().Sub(s.at) < relogin {
		return cmp.Or(s.err, fresh(refused))
	}
	ctx, cancel := context.WithTimeout(context.WithValue(withLeader, loggingIn{}, true), requestTimeout)
	defer cancel()
	resp, err := pb.NewAuthClient(conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: s.username, Password: s.password}, grpc.WaitForReady(true))
	s.at, s.err = driver.Now(), rpctypes.Error(err)
	switch {
	case err == nil, errors.Is(s.err, rpctypes.ErrAuthNotEnabled): // the cluster needs no token
		s.mu.Lock()
		defer s.mu.Unlock()
		s.token, s.serial, s.err = resp.GetToken(), serial+1, nil
	case serial > 0:
		s.err = fmt.Errorf("the cluster no longer accepts the token of the last login, and a new login fails: %w", s.err)
	}
	return s.err
}

// watching returns a context for a watch. Watches with equal metadata share a stream, and a stream keeps the token
// with which it was opened. When that token has expired, etcd 3.4 refuses new watches on the stream. So watching
// puts the serial number of the token into the metadata, and each login gets a stream.
func (s *store) watching(ctx context.Context) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	if s.session == nil {
		return ctx
	}
	_, serial := s.session.current()
	return metadata.AppendToOutgoingContext(ctx, "pawl-login", strconv.Itoa(serial))
}
