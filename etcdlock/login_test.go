// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// slowAuth is a member that refuses each login, after longer than relogin.
type slowAuth struct {
	pb.UnimplementedAuthServer
	logins atomic.Int32
}

func (a *slowAuth) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	a.logins.Add(1)
	time.Sleep(relogin * 5 / 4)
	return nil, status.Error(codes.Unavailable, "the member hangs")
}

// TestOneLoginForAll: requests that wait for a login that takes long and fails do not log in one after the other.
func TestOneLoginForAll(t *testing.T) {
	t.Parallel()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	member, server := new(slowAuth), grpc.NewServer()
	pb.RegisterAuthServer(server, member)
	go server.Serve(at)
	defer server.Stop()
	conn, err := grpc.NewClient(at.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	s := &session{username: "pawl", password: "secret"}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := s.renew(t.Context(), conn, 0, nil); err == nil {
				t.Error("a login has succeeded")
			}
		})
	}
	all.Wait()
	if n := member.logins.Load(); n > 2 { // two on a busy machine
		t.Errorf("%d logins; want 1 for all requests", n)
	}
}
