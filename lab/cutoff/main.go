// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Cutoff cuts the connection between a holder and Redis, and shows that the holder's
// context ends before the next holder starts.
//
//	go run ./lab/cutoff
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/redislock"
)

const ttl = 5 * time.Second

func main() {
	if _, err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cutoff:", err)
		os.Exit(1)
	}
}

// seen says when the holder's context ended, and when the next holder got the lock, both since the clients were opened.
type seen struct{ ended, granted time.Duration }

func run(ctx context.Context, w io.Writer) (seen, error) {
	dir, err := os.MkdirTemp("", "cutoff-")
	if err != nil {
		return seen{}, err
	}
	defer os.RemoveAll(dir)
	r := servers.NewRedis(dir)
	if err := r.Begin(); err != nil {
		return seen{}, err
	}
	defer r.End()
	wire, err := servers.NewLink(r.Addr)
	if err != nil {
		return seen{}, err
	}
	defer wire.Close()
	// assume_new skips the quarantine: the server is new, so nobody can hold a lease there.
	alice, err := redislock.Open(ctx, "redis://"+wire.Addr()+"?assume_new=true", &redislock.Options{Options: pawl.Options{TTL: ttl}})
	if err != nil {
		return seen{}, err
	}
	defer alice.Close()
	bob, err := redislock.Open(ctx, "redis://"+r.Addr, &redislock.Options{Options: pawl.Options{TTL: ttl}})
	if err != nil {
		return seen{}, err
	}
	defer bob.Close()

	began := time.Now()
	var mu sync.Mutex
	tell := func(who, format string, args ...any) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		at := time.Since(began)
		fmt.Fprintf(w, "%7.3fs  %-6s %s\n", at.Seconds(), who, fmt.Sprintf(format, args...))
		return at
	}
	var s seen
	works, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- alice.Do(ctx, "report", func(ctx context.Context, l *pawl.Lease) error {
			tell("alice", "has the lock, token %d", l.Token())
			close(works)
			<-ctx.Done()
			s.ended = tell("alice", "her context ends: %v", context.Cause(ctx))
			return context.Cause(ctx)
		})
	}()
	select {
	case <-works:
	case err := <-over:
		return s, err
	}
	tell("bob", "waits")
	got := make(chan error, 1)
	go func() {
		got <- bob.Do(ctx, "report", func(_ context.Context, l *pawl.Lease) error {
			s.granted = tell("bob", "has the lock, token %d", l.Token())
			return nil
		})
	}()
	time.Sleep(time.Second)
	tell("", "the connection between alice and Redis is cut")
	wire.Flow(servers.Up, servers.Flow{Lose: true})
	wire.Flow(servers.Down, servers.Flow{Lose: true})
	<-over
	return s, <-got
}
