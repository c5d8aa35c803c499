// SPDX-License-Identifier: Apache-2.0

//go:build linux

package migrate

import (
	"context"
	"path"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/zklock"
)

func init() {
	lockers["concurrency"] = oldEtcd
	lockers["go-zookeeper"] = oldZooKeeper
	lockers["pawl_on_etcd"] = func(key string, addrs []string) (func() (func() error, error), error) {
		dir, name := path.Split(key)
		c, err := etcdlock.Open(context.Background(), "etcd://"+addrs[0]+"?pattern="+dir+"*", nil)
		return opened(c, err, name)
	}
	lockers["pawl_on_ZooKeeper"] = func(key string, addrs []string) (func() (func() error, error), error) {
		dir, name := path.Split(key)
		c, err := zklock.Open(context.Background(), "zk://"+addrs[0]+path.Clean(dir), nil)
		return opened(c, err, name)
	}
}

// oldEtcd is the mutex of etcd's own package.
func oldEtcd(key string, addrs []string) (func() (func() error, error), error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return nil, err
	}
	return func() (func() error, error) {
		m := concurrency.NewMutex(session, key)
		if err := m.Lock(context.Background()); err != nil {
			return nil, err
		}
		return func() error { return m.Unlock(context.Background()) }, nil
	}, nil
}

func oldZooKeeper(key string, addrs []string) (func() (func() error, error), error) {
	conn, _, err := zk.Connect(addrs, ttl, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	return func() (func() error, error) {
		l := zk.NewLock(conn, key, zk.WorldACL(zk.PermAll))
		return l.Unlock, l.Lock()
	}, nil
}
