// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"sync"
	"testing"
	"time"
)

// TestReaderBesideARelease: a lease that has been downgraded keeps no reader out, also
// if it goes while the reader looks what it was.
func TestReaderBesideARelease(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	writer, reader := openURL(t, s.url(), 10*time.Second), openURL(t, s.url(), 10*time.Second)
	for range 300 {
		held := take(t, writer, request("deploy", 10*time.Second))
		if err := held.Downgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { release(t, held) })
		both.Go(func() {
			req := request("deploy", 10*time.Second)
			req.Shared = true
			g, err := reader.TryAcquire(t.Context(), req)
			if err != nil {
				t.Errorf("TryAcquire of a reader, when the writer had become one = %v", err)
				return
			}
			release(t, g)
		})
		if both.Wait(); t.Failed() {
			return
		}
	}
}
