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
	if up := path.Dir(dir); up != "/" {
		found, err := call(ctx, s, func() (bool, error) {
			found, _, err := s.conn.Exists(up)
			return found, err
		})
		if err != nil {
			return err
		}
		if !found {
			if err := s.makeDir(ctx, up); err != nil {
				return err
			}
		}
	}
	_, err := call(ctx, s, func() (string, error) {
		return s.conn.CreateContainer(dir, nil, zk.FlagContainer, s.store.acl)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

type none = struct{}

// call runs f, a request of package zk, which knows no contexts, and does not answer
// all that it has taken when it is closed. It returns when f has returned, or the session or
// ctx ends; then f goes on, and what it does is not known.
func call[T any](ctx context.Context, s *session, f func() (T, error)) (T, error) {
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
		return zero, errSession
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
