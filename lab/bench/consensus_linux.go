// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func init() {
	enlist(
		&contender{name: "create + children + delete", kind: floor, open: openRawZK},
		&contender{name: "zk.Lock", open: openZKLock},
		&contender{name: "put under a lease + delete", kind: floor, open: openRawEtcd},
		&contender{name: "concurrency.Mutex", open: openEtcdMutex},
	)
}

var anybody = zk.WorldACL(zk.PermAll)

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func dialZK(ctx context.Context, w *world) (*zk.Conn, error) {
	conn, events, err := zk.Connect([]string{w.ZK}, leaseTTL, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
}

// rawZK does only what every lock in ZooKeeper needs: create a node, list the nodes, delete the node.
type rawZK struct{ conn *zk.Conn }

func openRawZK(ctx context.Context, w *world, _ seat) (locker, error) {
	conn, err := dialZK(ctx, w)
	return rawZK{conn}, err
}

func (r rawZK) lock(_ context.Context, name string) (func() error, uint64, error) {
	dir := "/raw-" + name
	path, err := r.conn.Create(dir+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, anybody)
	if errors.Is(err, zk.ErrNoNode) {
		if _, err := r.conn.Create(dir, nil, 0, anybody); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, 0, err
		}
		path, err = r.conn.Create(dir+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, anybody)
	}
	if err != nil {
		return nil, 0, err
	}
	if _, _, err := r.conn.Children(dir); err != nil {
		return nil, 0, err
	}
	return func() error { return r.conn.Delete(path, -1) }, 0, nil
}

func (r rawZK) close() { r.conn.Close() }

type zkLocker struct{ conn *zk.Conn }

func openZKLock(ctx context.Context, w *world, _ seat) (locker, error) {
	conn, err := dialZK(ctx, w)
	return zkLocker{conn}, err
}

// lock ignores the context, because zk.Lock takes none.
func (l zkLocker) lock(_ context.Context, name string) (func() error, uint64, error) {
	lock := zk.NewLock(l.conn, "/"+name, anybody)
	if err := lock.Lock(); err != nil {
		return nil, 0, err
	}
	return lock.Unlock, 0, nil
}

func (l zkLocker) close() { l.conn.Close() }

func dialEtcd(w *world) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{w.Etcd}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// rawEtcd does only what every lock in etcd needs: put a key, if it does not exist, under an
// existing lease, and delete the key.
type rawEtcd struct {
	c     *clientv3.Client
	lease clientv3.LeaseID
}

func openRawEtcd(ctx context.Context, w *world, _ seat) (locker, error) {
	c, err := dialEtcd(w)
	if err != nil {
		return nil, err
	}
	grant, err := c.Grant(ctx, int64(leaseTTL.Seconds()))
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return rawEtcd{c, grant.ID}, nil
}

func (r rawEtcd) lock(ctx context.Context, name string) (func() error, uint64, error) {
	key := "raw/" + name + "/" + strconv.FormatInt(int64(r.lease), 16)
	reply, err := r.c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, "", clientv3.WithLease(r.lease))).Commit()
	if err == nil && !reply.Succeeded {
		err = errNotAlone
	}
	return func() error {
		_, err := r.c.Delete(context.Background(), key)
		return err
	}, 0, err
}

func (r rawEtcd) close() {
	ctx, cancel := background()
	defer cancel()
	_, _ = r.c.Revoke(ctx, r.lease)
	_ = r.c.Close()
}

// etcdMutex has one session, and so is for one goroutine: two with the same session could hold a Mutex at the same time.
type etcdMutex struct {
	c *clientv3.Client
	s *concurrency.Session
}

func openEtcdMutex(_ context.Context, w *world, _ seat) (locker, error) {
	c, err := dialEtcd(w)
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(leaseTTL.Seconds())))
	return etcdMutex{c, s}, err
}

func (l etcdMutex) lock(ctx context.Context, name string) (func() error, uint64, error) {
	m := concurrency.NewMutex(l.s, name)
	if err := m.Lock(ctx); err != nil {
		return nil, 0, err
	}
	return func() error { return m.Unlock(context.Background()) }, 0, nil
}

func (l etcdMutex) close() {
	_ = l.s.Close()
	_ = l.c.Close()
}
