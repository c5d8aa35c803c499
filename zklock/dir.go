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

// call runs f, a request of package zk, again if the servers have refused it for the moment.
func call[T any](ctx context.Context, s *session, f func() (T, error)) (T, error) {
	for {
		v, err := once(ctx, s, f)
		if err == nil || !answered(err) || !passing(err) || !s.sleep(ctx, retryPause) {
			return v, s.answer(err)
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

// once runs f. Package zk knows no contexts, and does not answer
// all that it has taken when it is closed. So once returns when f has returned, or the session or
// ctx ends; then f goes on, and what it does is not known.
func once[T any](ctx context.Context, s *session, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-s.dead:
		var zero T
		return zero, s.why()
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
