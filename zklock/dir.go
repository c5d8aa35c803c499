// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// makeDir makes the node of a name, and those above it, as containers: the servers
// remove them some time after the last child has gone.
func (s *session) makeDir(ctx context.Context, dir string) error {
	for {
		_, err := call(ctx, s, func() (string, error) {
			return s.conn.CreateContainer(dir, nil, zk.FlagContainer, s.store.acl)
		})
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := s.makeDir(ctx, path.Dir(dir)); err != nil {
			return err
		}
	}
}

// children returns the names of the nodes below dir: none if dir is not there.
func (s *session) children(ctx context.Context, dir string) ([]string, error) {
	names, err := call(ctx, s, func() ([]string, error) {
		names, _, err := s.conn.Children(dir)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

type none = struct{}

// call runs f, a request of package zk, again if the servers have refused it for the moment. Package zk knows no
// contexts, and does not answer all that it has taken when it is closed. So call returns when the session or ctx
// ends; then f goes on, and what it does is not known.
func call[T any](ctx context.Context, s *session, f func() (T, error)) (v T, err error) {
	for {
		done := make(chan struct{})
		var got T
		var failed error
		go func() {
			defer close(done)
			got, failed = f()
		}()
		select {
		case <-done:
		case <-s.dead:
			return v, s.why()
		case <-ctx.Done():
			return v, ctx.Err()
		}
		if failed == nil || !answered(failed) || !passing(failed) || !s.sleep(ctx, retryPause) {
			return got, s.answer(failed)
		}
	}
}

// answer returns the error of a request. It ends the session if the servers say that it has ended.
func (s *session) answer(err error) error {
	if errors.Is(err, zk.ErrSessionExpired) {
		s.end(errSession)
		return errSession
	}
	return err
}
