// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Nodes returns the state of the masters at url, in the order of the URL, however few of them answer.
// It waits for at most ConnectTimeout. It returns an error if the URL or the options are wrong.
func Nodes(ctx context.Context, url string, opts *Options) ([]Status, error) {
	all, _, err := overview(ctx, url, opts)
	return all, err
}

// Examine checks the masters at url, and says what to do. It works even if too few of them answer for Open.
func Examine(ctx context.Context, url string, opts *Options) ([]driver.Finding, error) {
	all, quorum, err := overview(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	return findings(all, quorum), nil
}

func overview(ctx context.Context, url string, opts *Options) ([]Status, int, error) {
	opts, places, err := parseURL(url, storekit.OrDefault(opts))
	if err != nil {
		return nil, 0, fmt.Errorf("redlock: %w", err)
	}
	conf, err := nodeConfig(opts)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, conf.Timeout, errSilent)
	defer cancel()
	addrs := addrsOf(places, addrOf)
	r := newRoster(opts.quorum(len(places)), addrs)
	all := make([]Status, len(places))
	var work sync.WaitGroup
	for i, p := range places {
		conf := conf
		conf.Contact, conf.Addr = p.Contact, addrs[i]
		all[i] = Status{Addr: addrs[i], Err: errSilent}
		work.Go(func() {
			c, err := p.Dial(ctx)
			if c == nil {
				if ctx.Err() == nil {
					all[i].Err = conn.NotBound(ctx, err).Err
				}
				return
			}
			n := newRedisNode(c, conf)
			defer n.Close()
			n.roster, n.at, n.deaf = r, i, err != nil
			if s, err := n.Status(ctx); err == nil {
				all[i] = Status(s)
			} else if n.deaf = true; ctx.Err() == nil {
				all[i].Err = err
			}
		})
	}
	work.Wait()
	for i := range all {
		all[i].judge(r.odd(i))
	}
	return all, r.quorum, nil
}
