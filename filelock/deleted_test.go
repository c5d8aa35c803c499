// SPDX-License-Identifier: Apache-2.0

//go:build unix

package filelock

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNoHandOverWithoutTheFile: the lock file is deleted while it is in use, and another
// process makes it anew. The next goroutine of the first one does not inherit the old lock.
func TestNoHandOverWithoutTheFile(t *testing.T) {
	for range 10 {
		dir := t.TempDir()
		c, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Acquire(t.Context(), "n") // which has no reserved tokens
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		held, err := c.Acquire(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		waited := make(chan error)
		go func() {
			_, err := c.Acquire(ctx, "n")
			waited <- err
		}()
		if err := os.Remove(filepath.Join(dir, encode("n")+lockSuffix)); err != nil {
			t.Fatal(err)
		}
		other, err := NewStore(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		next, err := clientOf(other).TryAcquire(t.Context(), request("n"))
		if err != nil {
			t.Fatal(err)
		}
		held.Release(t.Context())
		if err := <-waited; err == nil {
			t.Error("a waiter got the lease while another process had the name")
		}
		cancel()
		next.Release(t.Context())
		other.Close()
		c.Close()
	}
}
