// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"sync"

	"github.com/pawl-go/pawl"
)

// Mutex is a sync.Locker. That interface cannot report what may go wrong with a lock across machines. So Mutex
// panics, with an error for errors.Is:
//
//   - Lock panics if it cannot get the lock: the store cannot be reached (pawl.ErrUnavailable), the client is closed, or
//     the name is invalid.
//   - Unlock panics if the lease was lost since Lock (pawl.ErrLost). The work may have run beside another holder. The
//     panic cannot prevent that; it only stops the code that follows.
//   - Unlock of a Mutex that is not locked panics (pawl.ErrReleased), as with a sync.Mutex.
//
// Prefer Client.Do if you can change the code: its context ends with the lease. Long work under a Mutex can check
// Lease.
//
// Like a sync.Mutex, a Mutex does not belong to a goroutine, one goroutine at a time has it, even after a loss,
// and locking it twice blocks for ever. Do not copy a Mutex after the first use.
type Mutex struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Name    string        // the name of the lock
	Options []pawl.Option // for Acquire

	turns turns
}

var _ sync.Locker = (*Mutex)(nil)

// Lock waits for the lock, and panics if it cannot get it.
func (m *Mutex) Lock() {
	if err := m.turns.lock(context.Background(), m.Locks.Acquire, m.Name, m.Options); err != nil {
		panic(err)
	}
}

// Unlock releases the lock. It panics if the lock was lost or is not locked. It does not panic if
// the store cannot be reached: the work ran under the lock, and the client tries to release it again.
func (m *Mutex) Unlock() {
	err := m.turns.unlock(context.Background(), m.Name)
	if errors.Is(err, pawl.ErrLost) || errors.Is(err, pawl.ErrReleased) {
		panic(err)
	}
}

// Lease returns the lease between Lock and Unlock, or nil. The lease has the token, and reports a loss.
func (m *Mutex) Lease() *pawl.Lease { return m.turns.held(m.Name) }
