// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// makeDir makes a directory node and the nodes above it. They are containers: the servers delete a container some
// time after its last child has gone.
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

// listing is a list of the nodes below a directory.
type listing struct {
	names []string
	stat  zk.Stat // of the directory
}

// children lists the nodes below dir. The list is empty if dir does not exist.
func (s *session) children(ctx context.Context, dir string) (listing, error) {
	l, err := call(ctx, s, func() (listing, error) { return s.list(dir) })
	if errors.Is(err, zk.ErrNoNode) {
		return listing{}, nil
	}
	return l, err
}

func (s *session) list(dir string) (listing, error) {
	names, stat, err := s.conn.Children(dir)
	if err != nil {
		return listing{}, err
	}
	return listing{names, *stat}, nil
}

type none = struct{}

// call runs f, which makes a request of package zk, and repeats it while the servers refuse it for the moment.
// Package zk takes no contexts, and when it is closed it leaves some requests without an answer. So call returns
// early when the session or ctx ends. Then f may still run, and the outcome of its request is unknown.
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

// answer returns the error of a request. If the error says that the session has expired, answer ends the session.
func (s *session) answer(err error) error {
	if errors.Is(err, zk.ErrSessionExpired) {
		s.end(errSession)
		return errSession
	}
	return err
}
