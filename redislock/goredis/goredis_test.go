// SPDX-License-Identifier: Apache-2.0

//go:build linux

package goredis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// The default user is for the tests; programs are app.
const admin, user, password = "adm1n", "app", "s3cret"

// world is what the servers of a test have in common.
type world struct {
	t         *testing.T
	cert, key string
	tls       *tls.Config
}

func newWorld(t *testing.T) *world {
	t.Setenv("REDISCLI_AUTH", admin)
	w := &world{t: t}
	w.cert, w.key, _ = servers.Certificate(t)
	pem, err := os.ReadFile(w.cert)
	if err != nil {
		t.Fatal(err)
	}
	w.tls = &tls.Config{RootCAs: x509.NewCertPool()}
	w.tls.RootCAs.AppendCertsFromPEM(pem)
	return w
}

// files are the settings of TLS.
func (w *world) files() []string {
	return []string{"--tls-cert-file", w.cert, "--tls-key-file", w.key, "--tls-ca-cert-file", w.cert, "--tls-auth-clients", "optional"}
}

// start starts a server with TLS and a user, and returns it with the address that has TLS.
func (w *world) start(args ...string) (r *servers.Redis, addr string) {
	w.t.Helper()
	addr = drivertest.FreeAddr(w.t)
	_, port, _ := net.SplitHostPort(addr)
	args = append(append(args, w.files()...), "--tls-port", port, "--requirepass", admin, "--user", user, "on", ">"+password, "~*", "&*", "+@all")
	return servers.StartRedis(w.t, args...), addr
}

// bless ends the wait of new servers, as an operator would.
func (w *world) bless(url string, opts *redislock.Options) {
	w.t.Helper()
	if opts == nil {
		opts = &redislock.Options{}
	}
	opts.TLS = w.tls
	if err := redislock.Bless(context.Background(), url, opts); err != nil {
		w.t.Fatal(err)
	}
}

// program is one that has a client of go-redis, uses it, and has gained a lock.
func program(t *testing.T, rdb redis.UniversalClient) *pawl.Client {
	t.Helper()
	ctx := t.Context()
	if err := rdb.Set(ctx, "app:greeting", "hello", 0).Err(); err != nil {
		t.Fatal(err)
	}
	locks, err := New(ctx, rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	for _, name := range []string{"a", "b", "c", "invoice/42"} { // in a cluster at several nodes
		err = locks.Do(ctx, name, func(ctx context.Context, _ *pawl.Lease) error {
			if _, err := locks.TryAcquire(context.WithoutCancel(t.Context()), name); !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("another TryAcquire = %v; want ErrHeld", err)
			}
			return rdb.Get(ctx, "app:greeting").Err()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return locks
}

func TestSingle(t *testing.T) {
	w := newWorld(t)
	r, addr := w.start()
	w.bless("rediss://:"+admin+"@"+addr+"/2", nil)
	rdb := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password, TLSConfig: w.tls, DB: 2})
	defer rdb.Close()
	locks := program(t, rdb)
	out, err := r.Do("client", "list")
	if n := strings.Count(out, " name=pawl "); err != nil || n == 0 || n > 3 || strings.Count(out, "user="+user) <= n {
		t.Errorf("%d connections of %s are the locks' own (%v); want 1 to 3 beside those of the program", n, out, err)
	}
	if err := locks.Close(); err != nil {
		t.Error(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("closing the locks has closed the client: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	newWorld(t)
	sock := filepath.Join(t.TempDir(), "s")
	servers.StartRedis(t, "--unixsocket", sock)
	if err := redislock.Bless(t.Context(), "unix://"+sock, nil); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: sock})
	defer rdb.Close()
	program(t, rdb)
}

// TestCredentials: each new connection asks the program's provider, and the dialer of the
// program makes it.
func TestCredentials(t *testing.T) {
	w := newWorld(t)
	r, addr := w.start()
	w.bless("rediss://:"+admin+"@"+addr, nil)
	t.Setenv("PAWL_REDIS_PASSWORD", "another") // not the client's
	var present atomic.Value
	present.Store(password)
	var dialled atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr:                "redis.example:6379",
		CredentialsProvider: func() (string, string) { return user, present.Load().(string) },
		Dialer: func(ctx context.Context, network, at string) (net.Conn, error) {
			if at != "redis.example:6379" {
				return nil, errors.New("not the client's address: " + at)
			}
			dialled.Add(1)
			return (&tls.Dialer{Config: w.tls}).DialContext(ctx, network, addr)
		},
	})
	defer rdb.Close()
	locks := program(t, rdb)
	lease, err := locks.Acquire(t.Context(), "long", pawl.TTL(6*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	present.Store("n3w")
	r.Do("acl", "setuser", user, "resetpass", ">n3w")
	before := dialled.Load()
	r.Do("client", "kill", "user", user)
	err = lease.Extend(t.Context(), 20*time.Second)
	if errors.Is(err, pawl.ErrUncertain) { // it went over the connection that was being cut
		err = lease.Extend(t.Context(), 20*time.Second)
	}
	if err != nil {
		t.Errorf("Extend over a connection with the next password = %v", err)
	}
	if dialled.Load() == before {
		t.Error("the program's dialer was not asked")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSentinel(t *testing.T) {
	w := newWorld(t)
	_, addr := w.start()
	w.bless("rediss://:"+admin+"@"+addr, nil)
	watch := w.sentinel(port(addr))
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{watch}, Username: user, Password: password, TLSConfig: w.tls})
	defer rdb.Close()
	program(t, rdb)
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// sentinel starts one with TLS for the master at a port.
func (w *world) sentinel(masterPort string) (addr string) {
	w.t.Helper()
	addr = drivertest.FreeAddr(w.t)
	conf := filepath.Join(w.t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port 0\ntls-port %s\nbind 127.0.0.1\ndir %s\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %[3]s\ntls-auth-clients optional\ntls-replication yes\n"+
		"sentinel monitor mymaster 127.0.0.1 %[5]s 1\nsentinel auth-pass mymaster %s\nsentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 3000\n",
		port(addr), filepath.Dir(conf), w.cert, w.key, masterPort, admin)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(servers.RedisServer(), conf, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	await(w.t, "the sentinel listens", func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
	return addr
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so in a minute: %s", what)
		}
	}
}

func TestCluster(t *testing.T) {
	w := newWorld(t)
	var nodes []*servers.Redis
	var addrs []string
	for _, slots := range [][2]string{{"0", "8191"}, {"8192", "16383"}} {
		r, addr := w.start("--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", port(drivertest.FreeAddr(t)))
		if out, err := r.Do("cluster", "addslotsrange", slots[0], slots[1]); err != nil || out != "OK" {
			t.Fatal(out, err)
		}
		nodes, addrs = append(nodes, r), append(addrs, addr)
	}
	out, err := nodes[1].Do("config", "get", "cluster-port")
	bus := out[strings.LastIndexByte(out, '\n')+1:]
	if out, err2 := nodes[0].Do("cluster", "meet", "127.0.0.1", port(addrs[1]), bus); err != nil || err2 != nil || out != "OK" {
		t.Fatal(out, err, err2)
	}
	for _, r := range nodes {
		await(t, "the cluster is ready", func() bool {
			out, _ := r.Do("cluster", "info")
			return strings.Contains(out, "cluster_state:ok") && strings.Contains(out, "cluster_known_nodes:2")
		})
	}
	w.bless("rediss://:"+admin+"@"+addrs[0], nil)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs[:1], Username: user, Password: password, TLSConfig: w.tls})
	defer rdb.Close()
	program(t, rdb)
	for _, r := range nodes {
		if out, err := r.Do("client", "list"); err != nil || !strings.Contains(out, " name=pawl ") {
			t.Errorf("a node has no connection of the locks: %s", out)
		}
	}
}

func TestRedlock(t *testing.T) {
	w := newWorld(t)
	var clients []*redis.Client
	var hosts []string
	for i := range 3 {
		_, addr := w.start("--user", fmt.Sprint(user, i), "on", ">"+password, "~*", "&*", "+@all")
		c := redis.NewClient(&redis.Options{Addr: addr, Username: fmt.Sprint(user, i), Password: password, TLSConfig: w.tls})
		defer c.Close()
		clients, hosts = append(clients, c), append(hosts, addr)
	}
	opts := &redlock.Options{}
	opts.TLS = w.tls
	if err := redlock.Bless(t.Context(), "redlock://:"+admin+"@"+strings.Join(hosts, ",")+"?tls=true", opts); err != nil {
		t.Fatal(err)
	}
	locks, err := NewRedlock(t.Context(), clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if err := locks.Do(t.Context(), "a", func(context.Context, *pawl.Lease) error { return nil }); err != nil {
		t.Error(err)
	}
	if _, err := NewRedlock(t.Context(), clients[:2], nil); err == nil {
		t.Error("two masters are accepted")
	}
}

func TestRefusals(t *testing.T) {
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	for what, f := range map[string]func() (*pawl.Client, error){
		"a Ring": func() (*pawl.Client, error) {
			return New(t.Context(), redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}), nil)
		},
		"not of a cluster": func() (*pawl.Client, error) {
			return New(t.Context(), redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}), nil)
		},
		"none of": func() (*pawl.Client, error) {
			return New(t.Context(), struct{ redis.UniversalClient }{one}, nil)
		},
		"leave Dial": func() (*pawl.Client, error) {
			return New(t.Context(), one, &redislock.Options{Username: "me"})
		},
		"is nil": func() (*pawl.Client, error) { return New(t.Context(), (*redis.Client)(nil), nil) },
		"client 1 of 3 is nil": func() (*pawl.Client, error) {
			return NewRedlock(t.Context(), []*redis.Client{one, nil, one}, nil)
		},
		"not of the form host:port": func() (*pawl.Client, error) {
			return NewRedlock(t.Context(), []*redis.Client{redis.NewClient(&redis.Options{Addr: ":6379"}), one, one}, nil)
		},
	} {
		_, err := f()
		var failed *pawl.Error
		if !errors.As(err, &failed) || failed.Op != "open" || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want an error with %q", err, what)
		}
	}
	early, err := New(t.Context(), one, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if err := early.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "is the server running") {
		t.Errorf("Ping without a server = %v", err)
	}
}
