// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestListIsQuick: a list of many names takes the time of a few trips, not of some for
// each name.
func TestListIsQuick(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	const names, ttl = 60, time.Minute
	d := openURL(t, s.url(), ttl)
	for i := range names {
		take(t, d, request(fmt.Sprint("quick/", i), ttl))
	}
	link := drivertest.NewLink(t, s.Addr)
	far := openThrough(t, link, options(ttl))
	defer far.Close()
	link.Set(drivertest.Delayed) // by 0.4 s for each trip
	const limit = names * 400 * time.Millisecond / 2
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	infos, err := far.List(ctx, "quick/")
	if ctx.Err() != nil {
		t.Fatalf("a list of %d names took more than %v", names, limit)
	}
	if err != nil || len(infos) != names {
		t.Fatalf("List = %d names, %v; want %d", len(infos), err, names)
	}
}
