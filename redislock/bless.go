// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Bless declares that nobody holds a lease that the server at url may have forgotten.
// It ends the quarantine after a restart or FLUSHALL, or of a new server. After a
// crash, call it only when every holder has ended or was stopped. If opts or the URL
// name a MaxTTL, it becomes the store's. Bless returns the errors of Open. With
// Efficiency there is no quarantine, and Bless returns an error.
func Bless(ctx context.Context, url string, opts *Options) error {
	return change(ctx, "bless", url, opts, func(s *store) error { return s.server.Bless(ctx) })
}

// SetMaxTTL changes MaxTTL of the store at url for all its clients. It can be used at
// any time: running clients adopt the new one with their next lease. A longer MaxTTL
// takes effect at once. A shorter one takes effect for new leases and for renewals;
// after a loss of data the quarantine still lasts until the last lease with the longer
// one must have ended.
//
// Before you raise it, give all clients the new MaxTTL, since a client with a shorter
// one is refused when it starts. After you have lowered it, change the clients when you
// like. SetMaxTTL returns the errors of Open.
func SetMaxTTL(ctx context.Context, url string, maxTTL time.Duration, opts *Options) error {
	url, err := conn.WithMaxTTL(url, maxTTL)
	if err != nil {
		return &pawl.Error{Op: "set MaxTTL", Err: fmt.Errorf("redislock: %w", err)}
	}
	return change(ctx, "set MaxTTL", url, opts, func(s *store) error { return s.server.Set(ctx) })
}

func change(ctx context.Context, op, url string, opts *Options, f func(*store) error) error {
	s, _, err := connect(ctx, url, opts)
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	defer s.Close()
	if s.mode == Efficiency {
		return &pawl.Error{Op: op, Err: errors.New("redislock: with Mode Efficiency nothing waits for a server to be blessed, and MaxTTL is of no use: leave out ?mode=")}
	}
	if err := f(s); err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	return nil
}
