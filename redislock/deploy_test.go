// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// works checks all operations of a client at url.
func works(t *testing.T, url string) {
	t.Helper()
	opts := longOptions()
	bless(t, url, opts)
	a := openClient(t, url, opts)
	b := openClient(t, url, opts)
	clientsWork(t, a, b)
}

func clientsWork(t *testing.T, a, b *pawl.Client) {
	t.Helper()
	first := acquire(t, a, "deploy")
	fails(t, "TryAcquire", errorOf(b.TryAcquire(t.Context(), "deploy")), pawl.ErrHeld)
	next := make(chan *pawl.Lease)
	go func() {
		l, err := b.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		next <- l
	}()
	await(t, "Inspect does not show the holder and the waiter", func() bool {
		info, err := a.Inspect(t.Context(), "deploy")
		return err == nil && len(info.Holders) == 1 && len(info.Waiters) == 1
	})
	succeeds(t, "Extend", first.Extend(t.Context(), time.Minute))
	release(t, first)
	second := <-next
	if second == nil {
		return
	}
	if list, err := a.List(t.Context(), "dep"); err != nil || len(list) != 1 {
		t.Errorf("List = %v, %v; want one name", list, err)
	}
	succeeds(t, "Break", a.Break(t.Context(), "deploy", second.ID(), "test"))
	within(t, "the holder does not hear of Break", second.Done())
	second.Release(t.Context())
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "s")
	startServer(t, "--unixsocket", sock)
	awaitListener(t, "unix", sock)
	works(t, "unix://"+sock)
	works(t, "unix://"+sock+"?db=3&prefix=other:")
}

// TestOpenByURL: what the URL says goes before the default TTL also when package pawl makes
// the client.
func TestOpenByURL(t *testing.T) {
	t.Parallel()
	url := "redis://" + startServer(t).Addr + "?max_ttl=10s"
	bless(t, url, nil)
	locks, err := pawl.Open(t.Context(), url, nil)
	must(t, err)
	defer locks.Close()
	lease := try(t, locks, "deploy")
	if left := time.Until(lease.Deadline()); left > 10*time.Second {
		t.Errorf("the lease lasts %v", left)
	}
	_, err = pawl.Open(t.Context(), url+"&me=s3cret", nil)
	var failed *pawl.Error
	if !errors.As(err, &failed) || failed.Op != "open" || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a URL with what no server knows: %v", err)
	}
}

// TestOwnClient uses clients that the caller has made, with the defaults of rueidis:
// with several connections, RESP2 or RESP3.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	for _, opt := range []rueidis.ClientOption{
		{DisableCache: true}, {DisableCache: true, AlwaysRESP2: true},
		{DisableCache: true, PipelineMultiplex: 3}, {DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1},
	} {
		opt.InitAddress = []string{r.Addr}
		client, err := rueidis.NewClient(opt)
		must(t, err)
		a, err := New(client, longOptions())
		must(t, err)
		b, err := New(client, longOptions())
		must(t, err)
		clientsWork(t, a, b)
		a.Close()
		b.Close()
		if out := r.do("pubsub", "channels"); out != "" {
			t.Errorf("after Close the channels %q are subscribed to", out)
		}
		if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
			t.Errorf("Close has closed the caller's client: %v", err)
		}
		client.Close()
	}
}

// leastRights are those that docs/redis-protocol.md lists.
var leastRights = strings.Fields("+info +script|load +script|exists +evalsha +ping +subscribe +time +get +exists +set +del +pttl +pexpire " +
	"+mget +zadd +zrange +zrangebyscore +zrank +zrem +zscore +zcard +publish +pubsub|numsub +scan +setrange +object|encoding")

func TestLeastRights(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	grant := func(rights []string, more ...string) {
		t.Helper()
		args := append([]string{"acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:*", "&pawl:client:*"}, rights...)
		if out := r.do(append(args, more...)...); out != "OK" {
			t.Fatal(out)
		}
	}
	doc, err := os.ReadFile("../docs/redis-protocol.md")
	must(t, err)
	for _, right := range leastRights {
		if !strings.Contains(string(doc), right) {
			t.Errorf("docs/redis-protocol.md does not list the right %s", right)
		}
	}
	at := "redis://app:s3cret@" + r.Addr
	grant(leastRights)
	works(t, at)
	open(t, at, longOptions())
	await(t, "a client that has nothing to do does not look whether its connection is alive", func() bool { return strings.Contains(r.do("info", "commandstats"), "cmdstat_ping:") })
	if out := r.do("acl", "log"); out != "" {
		t.Errorf("what the client does fills the log of refusals:\n%s", out)
	}
	for i, right := range leastRights {
		switch right {
		case "+scan", "+subscribe", "+ping", "+script|exists":
			continue // not asked for at first, or not needed
		}
		grant(append(append([]string{}, leastRights[:i]...), leastRights[i+1:]...))
		_, err := Open(t.Context(), at, longOptions())
		if err == nil || !strings.Contains(err.Error(), right) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open without the right %s = %v; want an error that names it", right, err)
		} else if strings.Count(err.Error()+" ", right+" ") > 1 {
			t.Errorf("Open without the right %s = %v; want an error that names it once", right, err)
		}
	}
	grant(leastRights, "-script|exists") // as before there was this right
	works(t, at)
	grant(leastRights, "-subscribe")
	deaf := open(t, at, longOptions())
	take(t, deaf, long("deploy"))
	fails(t, "Acquire without the right +subscribe", errorOf(deaf.Acquire(t.Context(), long("deploy"))), nil, "+subscribe")
	for _, wrong := range [][]string{{"resetkeys", "~other:*"}, {"resetchannels", "&other:*"}} {
		grant(leastRights, wrong...)
		_, err := Open(t.Context(), at, longOptions())
		fails(t, "Open with "+strings.Join(wrong, " "), err, nil, "~pawl:* &pawl:client:*")
	}
}

// TestErrors: for every way in which a server can refuse, the error says what to do,
// and never contains the password.
func TestErrors(t *testing.T) {
	t.Setenv(conn.PasswordEnv, "")
	r := startServer(t, "--requirepass", "s3cret")
	replica := startServer(t, "--replicaof", "127.0.0.1 1")
	cluster := startServer(t, "--cluster-enabled", "yes")
	open := func(url string) error {
		opts := longOptions()
		opts.ConnectTimeout = time.Second
		c, err := NewStore(t.Context(), url, opts)
		if err == nil {
			c.Close()
		}
		return err
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and stays silent
	must(t, err)
	defer silent.Close()
	for _, c := range []struct{ url, want string }{
		{"redis://" + r.Addr, "the server wants a password"},
		{"redis://:s3crets@" + r.Addr, "disabled: the server refuses this user or password"},
		{"redis://who:s3crets@" + r.Addr, "disabled: the server refuses this user or password"},
		{"redis://" + drivertest.FreeAddr(t), "is the server running"},
		{"redis://" + silent.Addr().String(), "deadline"},
		{"redis://" + talker(t), "no Redis server"},
		{"rediss://" + replica.Addr, "has no TLS"},
		{"rediss://" + silent.Addr().String(), "has no TLS"},
		{"unix:///no/such/socket", "is the server running"},
		{"redis://" + replica.Addr, "master"},
		{"redis://" + cluster.Addr, "cluster is down"}, // it has no slots
		{"redis://" + cluster.Addr + "/3", "database 0 only"},
		{"redis://" + cluster.Addr + "/3?addr=x", "database 0 only"},
		{"redis://:s3cret@ho st/", "not a URL"},
		{"redis://:s3cret@host:s3cret/", "not a URL"},
		{"redis:s3cret", "not a URL"},
		{"http://:s3cret@host/", "use redis, rediss or unix"},
		{"redis://:s3cret@host/x", "not the number of a database"},
		{"redis://:s3cret@host/?max_tll=3", "max_tll: there is no such parameter: did you mean max_ttl?"},
		{"redis://:s3cret@host/?allow_unguarded=yes", `allow_unguarded: "yes" is not a truth value: use true or false`},
		{"redis://:s3cret@host/?ttl=5s", "set Options.TTL in Go, or --ttl"},
		{"redis://:s3cret@h1:6379,h2:6379", "?addr="},
		{"redis://:s3cret@host/?prefix={", "braces"},
		{"redis://:s3cret@host/?max_ttl=1ms", "use at least 10ms"},
		{"redis://" + replica.Addr + "?addr=" + replica.Addr, "master_set"},
		{"redis://:s3cret@" + drivertest.FreeAddr(t) + "?master_set=x", "is the server running"},
		{"redis://host/?password_file=/no/such", "no such file"},
		{"redis://:2024/s3crets@host:6379", "as %xx"},
		{"redis://app:12?s3crets@host", "as %xx"},
		{"redis://app/s3crets@host/0", "as %xx"},
		{"redis://app:12/s3crets@host?zz=1", "as %xx"},
		{"redis://host/?ca_file=/no/such", "no such file"},
		{"redis://host/?mode=fast", `there is no mode "fast": write mode=efficiency`},
		{"redis://host/?mode=", `there is no mode "": write mode=efficiency`},
		{"redis://host/?mode=efficiency&wait_replicas=1", "leave one of them out"},
		{"redis://:s3crets@" + r.Addr + "?mode=efficiency", "disabled: the server refuses this user or password"},
		{"redis://" + replica.Addr + "?mode=efficiency", "master"},
		{"redis://" + drivertest.FreeAddr(t) + "?mode=efficiency", "is the server running"},
	} {
		slow, began := drivertest.Late(t), time.Now()
		err := open(c.url)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open(%q) = %v; want an error with %q and without the password", c.url, err, c.want)
		}
		if d := time.Since(began); d > 4*time.Second+slow() {
			t.Errorf("Open(%q) took %v", c.url, d)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	works(t, "redis://"+r.Addr+"?password_file="+url.QueryEscape(file))
	works(t, "redis://:s3cret@"+r.Addr+"/2")
	t.Setenv(conn.PasswordEnv, "s3cret")
	works(t, "redis://"+r.Addr)
}

// talker is the address of a server that speaks HTTP.
func talker(t *testing.T) string {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestTLS uses an authority made for the test, and one that is unknown.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, _ := servers.Certificate(t)
	addr := drivertest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	startServer(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "optional")
	awaitListener(t, "tcp", addr)
	works(t, "rediss://"+addr+"?ca_file="+cert)
	works(t, "rediss://"+addr+"?ca_file="+cert+"&cert_file="+cert+"&key_file="+key)
	_, err := NewStore(context.Background(), "rediss://"+addr, nil)
	fails(t, "NewStore with an unknown authority", err, pawl.ErrUnavailable, "ca_file")
	_, err = NewStore(context.Background(), "rediss://"+addr+"?server_name=elsewhere&ca_file="+cert, nil)
	fails(t, "NewStore with another server's name", err, nil, "elsewhere")
	_, err = NewStore(context.Background(), "rediss://"+addr+"?ca_file="+cert, &Options{TLS: &tls.Config{ServerName: "elsewhere"}})
	fails(t, "NewStore with another server's name in the options", err, nil, "elsewhere")
}
