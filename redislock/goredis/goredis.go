// SPDX-License-Identifier: Apache-2.0

// Package goredis opens locks on the servers of a go-redis client. A program that uses go-redis
// then configures address, password and TLS only once.
//
//	rdb := redis.NewClient(&redis.Options{…}) // as the program has it
//	locks, err := goredis.New(ctx, rdb, nil)
//
// The locks have their own connections, named pawl in CLIENT LIST. They do not use the client's
// pool, because they must receive messages, and must know which connection carried a request.
// There is one connection for requests and messages, a second one while scripts are loaded, and
// another with WaitReplicas. On a cluster these are per node with locks. The client's dialer
// makes each connection. It logs in with the client's password, or asks the client's credentials
// provider.
//
// New takes from the client its address, network, database, Dialer, TLSConfig, DialTimeout,
// Username, Password, the three kinds of credentials providers, and the master that sentinels
// name. It ignores hooks, OnConnect, limits, retries, timeouts of reads and writes, and the number
// of connections. Closing the client does not close the locks, and closing the locks does not
// close the client. But after a client of sentinels is closed, its dialer finds no master.
//
// With sentinels, the client's dialer looks up the master only for a new connection. If the
// sentinels replace a master that can still be reached and still says that it is the master, the
// locks stay there. Then other clients can get the same locks at the new master. This happens
// when only the sentinels cannot reach the old master. If you use redislock.Open instead, with the
// addresses of the sentinels (redis://sentinel:26379?master_set=NAME), the client learns of a new
// master within a second. In both cases, set min-replicas-to-write at the servers.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// New returns a pawl client for the server, master or cluster of client. The first lease on a new
// server may wait for MaxTTL, 30 s by default; see redislock.Open. Do not set Dial, Credentials, TLS,
// Username and Password in opts: New takes them from client. For a Ring, and for a cluster client
// with ClusterSlots (such as NewFailoverClusterClient makes), New returns an error that is
// errors.ErrUnsupported, since a key may be on several of their servers. Otherwise it returns the
// errors of redislock.Open.
func New(ctx context.Context, client redis.UniversalClient, opts *redislock.Options) (*pawl.Client, error) {
	own, err := options(opts)
	if err != nil {
		return nil, fail(err)
	}
	var at string
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, fail(errors.New("the client is nil"))
		}
		at, err = single(c.Options(), &own)
	case *redis.ClusterClient:
		if c == nil {
			return nil, fail(errors.New("the client is nil"))
		}
		at, err = cluster(c.Options(), &own)
	case *redis.Ring:
		err = fmt.Errorf("a Ring spreads keys over servers that know nothing of each other: give New one of them, or NewRedlock all: %w", errors.ErrUnsupported)
	default:
		err = fmt.Errorf("%T is none of *redis.Client and *redis.ClusterClient: give New what it wraps: %w", client, errors.ErrUnsupported)
	}
	if err != nil {
		return nil, fail(err)
	}
	return redislock.Open(ctx, at, &own)
}

// NewRedlock is New for independent masters, each with its own client; see redlock.Open.
func NewRedlock(ctx context.Context, clients []*redis.Client, opts *redlock.Options) (*pawl.Client, error) {
	if opts == nil {
		opts = &redlock.Options{}
	}
	own := *opts
	var err error
	if own.Options, err = options(&opts.Options); err != nil {
		return nil, fail(err)
	}
	var hosts []string
	each := make(map[string]redislock.Options)
	for i, c := range clients {
		if c == nil {
			return nil, fail(fmt.Errorf("client %d of %d is nil", i, len(clients)))
		}
		one := redislock.Options{}
		if _, err := single(c.Options(), &one); err != nil {
			return nil, fail(err)
		}
		o := c.Options()
		if o.Network == "unix" || o.Addr == throughSentinels || o.DB != clients[0].Options().DB {
			return nil, fail(fmt.Errorf("the masters of Redlock are servers at addresses of their own, with the same database; %s is not: %w", o.Addr, errors.ErrUnsupported))
		}
		if host, port, err := net.SplitHostPort(o.Addr); err != nil || host == "" || port == "" {
			return nil, fail(fmt.Errorf("the address %q of a master is not of the form host:port", o.Addr))
		}
		hosts, each[o.Addr] = append(hosts, o.Addr), one
	}
	own.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return each[addr].Dial(ctx, network, addr)
	}
	own.Credentials = func(ctx context.Context, addr string) (string, string, error) {
		return each[addr].Credentials(ctx, addr)
	}
	path := ""
	if len(clients) > 0 {
		path = strconv.Itoa(clients[0].Options().DB)
	}
	return redlock.Open(ctx, "redlock://"+strings.Join(hosts, ",")+"/"+path, &own)
}

func fail(err error) error { return &pawl.Error{Op: "open", Err: fmt.Errorf("goredis: %w", err)} }

// options returns a copy of opts. It returns an error if opts has a setting that comes from the client.
func options(opts *redislock.Options) (own redislock.Options, err error) {
	if opts != nil {
		own = *opts
	}
	if own.Dial != nil || own.Credentials != nil || own.TLS != nil || own.Username != "" || own.Password != "" {
		return own, errors.New("how to connect is the client's to say: leave Dial, Credentials, TLS, Username and Password out")
	}
	return own, nil
}

// throughSentinels is the address in the options of a go-redis client that uses sentinels. The
// client's dialer ignores it and finds the master.
const throughSentinels = "FailoverClient"

// single sets in own how to connect to the server of a client, and returns the URL of the server.
func single(o *redis.Options, own *redislock.Options) (string, error) {
	own.Dial = o.Dialer // go-redis always sets it; it makes TLS connections, and asks the sentinels
	own.Credentials = credentials(o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider)
	if o.Network == "unix" {
		return (&url.URL{Scheme: "unix", Path: o.Addr, RawQuery: "db=" + strconv.Itoa(o.DB)}).String(), nil
	}
	if o.Network != "" && o.Network != "tcp" {
		return "", fmt.Errorf("the client's network is %q: tcp and unix can be: %w", o.Network, errors.ErrUnsupported)
	}
	return (&url.URL{Scheme: "redis", Host: o.Addr, Path: "/" + strconv.Itoa(o.DB)}).String(), nil
}

// cluster is single for a cluster client. The URL has the addresses that the client was made with.
func cluster(o *redis.ClusterOptions, own *redislock.Options) (string, error) {
	switch {
	case o.ClusterSlots != nil:
		return "", fmt.Errorf("a cluster client with ClusterSlots is not of a cluster: give New a client of the master, such as redis.NewFailoverClient makes: %w", errors.ErrUnsupported)
	case len(o.Addrs) == 0:
		return "", errors.New("the client has no addresses")
	}
	own.Dial = o.Dialer
	if own.Dial == nil {
		own.Dial = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	}
	own.Credentials = credentials(o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider)
	u := url.URL{Scheme: "redis", Host: o.Addrs[0]}
	q := url.Values{"addr": o.Addrs}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// credentials returns the function for redislock.Options.Credentials. It prefers the providers in the same order as
// go-redis.
func credentials(username, password string, plain func() (string, string), withContext func(context.Context) (string, string, error),
	streaming auth.StreamingCredentialsProvider) func(context.Context, string) (string, string, error) {
	return func(ctx context.Context, _ string) (string, string, error) {
		switch {
		case streaming != nil:
			// Take only the present credentials, and ignore later ones: when they expire the
			// server ends the connection, and the next connection asks again.
			present, leave, err := streaming.Subscribe(&deaf{present: true})
			if err != nil {
				return "", "", err
			}
			defer leave()
			u, p := present.BasicAuth()
			return u, p, nil
		case withContext != nil:
			return withContext(ctx)
		case plain != nil:
			u, p := plain()
			return u, p, nil
		}
		return username, password, nil
	}
}

// deaf is a listener that ignores new credentials. Providers tell listeners apart by their
// address, so the size of deaf must not be zero.
type deaf struct{ present bool }

func (*deaf) OnNext(auth.Credentials) {}
func (*deaf) OnError(error)           {}
