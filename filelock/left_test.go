// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"path/filepath"
	"syscall"
	"testing"
)

// left lists what is in the directories of those who hold names that begin with
// prefix, or wait for them.
func left(t testing.TB, dir, prefix string) (files []string) {
	t.Helper()
	for _, suffix := range []string{queueSuffix, heldSuffix} {
		some, err := filepath.Glob(filepath.Join(dir, encode(prefix)+"*"+suffix, "*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	return files
}

// crash closes all files that s has open for leases. A process that another test is just starting has
// copies of them until its program runs.
func (s *store) crash() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	leases.Range(func(_, l any) bool {
		switch l := l.(type) {
		case *hold:
			if l.store == s {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.lock.Close()
				l.fifo.Close()
				l.slot.Close()
			}
		case *place:
			if l.store == s {
				l.fifo.Close()
			}
		}
		return true
	})
}
