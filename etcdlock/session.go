// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
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

// session logs a client in, and in again when the cluster no longer accepts the token
// that it has got for the password: JWTs expire after five minutes unless told
// otherwise, others are forgotten with the member that gave them.
//
// Package clientv3 does that, too, but shows the old token with the question for a new
// one, and etcd 3.4 refuses that question because the token has expired; the client
// answers by asking for a token. So it has no password here, and a login shows no token.
type session struct {
	username, password string

	mu     sync.Mutex // guards the fields below
	token  string
	serial int // of the token; 0: there has been none
	at     driver.Instant
	login  *login // that is under way, or nil
}

// login is one that several requests may wait for.
type login struct {
	done chan struct{}
	err  error // set before done is closed
}

// relogin is how soon after a login another one is tried: a server that accepts no
// token, not even a fresh one, must not be kept busy with passwords.
const relogin = time.Second

// options let a connection show the token.
func (s *session) options() []grpc.DialOption {
	if s == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithPerRPCCredentials(s), grpc.WithChainUnaryInterceptor(s.intercept)}
}

// loggingIn is the key of a context of a request that shows no token.
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

// intercept makes one request, and makes it again if it was refused because of the token:
// then the server has recorded nothing.
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

// fresh is the error of a token that was refused although it is new. Package clientv3
// must not take it for one that passes.
func fresh(err error) error {
	return fmt.Errorf("with a new token: %w", rpctypes.Error(err))
}

// renew gets another token than that with the serial number given, which was refused.
// The login goes on when ctx ends: to check a password takes a server longer than some
// requests have.
func (s *session) renew(ctx context.Context, conn *grpc.ClientConn, serial int, refused error) error {
	s.mu.Lock()
	if s.serial != serial {
		s.mu.Unlock()
		return nil
	}
	l := s.login
	if l == nil {
		if serial > 0 && driver.Now().Sub(s.at) < relogin {
			s.mu.Unlock()
			return fresh(refused)
		}
		l = &login{done: make(chan struct{})}
		s.login = l
		go s.ask(conn, l)
	}
	s.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask shows the password.
func (s *session) ask(conn *grpc.ClientConn, l *login) {
	ctx, cancel := context.WithTimeout(context.WithValue(withLeader, loggingIn{}, true), requestTimeout)
	defer cancel()
	resp, err := pb.NewAuthClient(conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: s.username, Password: s.password}, callOptions...)
	err = rpctypes.Error(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.login = nil
	switch {
	case err == nil:
		s.token, s.serial, s.at = resp.Token, s.serial+1, driver.Now()
	case errors.Is(err, rpctypes.ErrAuthNotEnabled):
		s.token, s.serial, s.at = "", s.serial+1, driver.Now()
	case s.serial > 0:
		l.err = fmt.Errorf("the cluster no longer accepts the token of the last login, and a new login fails: %w", err)
	default:
		l.err = err
	}
	close(l.done)
}

// watching returns a context for a watch. Those of one login share a stream, whose
// token stays that with which it was opened: etcd 3.4 refuses new watches on it when that
// has expired.
func (s *store) watching(ctx context.Context) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	if s.session == nil {
		return ctx
	}
	_, serial := s.session.current()
	return metadata.AppendToOutgoingContext(ctx, "pawl-login", strconv.Itoa(serial))
}
