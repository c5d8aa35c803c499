// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestOpenNamesHungNodes: where a majority takes connections and answers nothing, Open says which nodes do not
// answer, whatever ends it.
func TestOpenNamesHungNodes(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 5, nil)
	for _, s := range f[:3] {
		s.stop()
		defer s.cont()
	}
	for _, within := range []time.Duration{time.Second, time.Minute} {
		opts := &Options{}
		opts.ConnectTimeout = 3 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		locks, err := Open(ctx, f.url(), opts)
		if err == nil {
			defer locks.Close()
			err = locks.Ping(ctx)
		}
		if err == nil {
			t.Fatal("Open and Ping have no error")
		}
		if left := ctx.Err() != nil; errors.Is(err, context.DeadlineExceeded) != left || errors.Is(err, pawl.ErrUnavailable) == left {
			t.Errorf("Open within %v = %v; want ErrUnavailable, unless the context has ended", within, err)
		}
		for _, s := range f[:3] {
			if !strings.Contains(err.Error(), s.Addr) {
				t.Errorf("Open within %v = %v; want it to name %s", within, err, s.Addr)
			}
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), " of 5 nodes") { // on a busy machine more than 3
			t.Errorf("Open within %v = %v; want one line that counts the nodes", within, err)
		}
	}
}
