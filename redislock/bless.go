// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Bless ends the quarantine of the server at url. The caller declares that nobody holds
// a lease that the server may have forgotten. Use it for a new server, and after a
// restart or FLUSHALL. After a crash, first make sure that every holder has ended. If
// opts or the URL set a MaxTTL, it becomes the MaxTTL of the store. Bless returns the
// errors of Open. With Efficiency there is no quarantine, and Bless returns an error.
func Bless(ctx context.Context, url string, opts *Options) error {
	return change(ctx, "bless", url, opts, epoch.Trust)
}

// SetMaxTTL changes the MaxTTL of the store at url for all clients. Call it at any
// time: running clients adopt the new MaxTTL with their next lease. A longer MaxTTL
// takes effect at once. A shorter one takes effect for new leases and for renewals.
// But leases with the longer one may still run, so a quarantine after a loss of data
// also waits for these.
//
// Before you raise MaxTTL, configure the new value in all clients: the store refuses a
// client that starts with a shorter one. After you have lowered it, change the clients
// at any time. SetMaxTTL returns the errors of Open.
func SetMaxTTL(ctx context.Context, url string, maxTTL time.Duration, opts *Options) error {
	url, err := conn.WithMaxTTL(url, maxTTL)
	if err != nil {
		return &pawl.Error{Op: "set MaxTTL", Err: fmt.Errorf("redislock: %w", err)}
	}
	return change(ctx, "set MaxTTL", url, opts, epoch.Setting)
}

func change(ctx context.Context, op, url string, opts *Options, mode string) error {
	s, _, err := connect(ctx, url, opts)
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	defer s.Close()
	if s.mode == Efficiency {
		return &pawl.Error{Op: op, Err: errors.New("redislock: with Mode Efficiency nothing waits for a server to be blessed, and MaxTTL is of no use: leave out ?mode=")}
	}
	if err := s.server.Change(ctx, mode); err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	return nil
}
