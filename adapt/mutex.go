// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"sync"

	"github.com/pawl-go/pawl"
)

// Mutex is a sync.Locker for code that asks for one. That interface has no room
// for what can go wrong with a lock across machines, so Mutex panics, with an
// error that errors.Is can look at:
//
//   - Lock, when it cannot get the lock: the store cannot be reached
//     (pawl.ErrUnavailable), the client is closed, the name is no name.
//   - Unlock, when the lease was lost since Lock (pawl.ErrLost). What was done in
//     between may have been done beside another holder. Unlock comes too late to
//     prevent that; it can only keep the code after it from going on.
//   - Unlock of what is not locked (pawl.ErrReleased), as with a sync.Mutex.
//
// Code that can be changed does better with Client.Do, whose context ends at the
// loss. Under a Mutex, work that takes long can look at Lease.
//
// Like a sync.Mutex it belongs to no goroutine, one goroutine at a time has it,
// also after a loss, and who locks it twice waits for ever. It must not be copied
// after the first use.
type Mutex struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Name    string        // of the lock
	Options []pawl.Option // of Acquire

	turns turns
}

var _ sync.Locker = (*Mutex)(nil)

// Lock waits until it has the lock, and panics if it cannot get it.
func (m *Mutex) Lock() {
	if err := m.turns.lock(context.Background(), m.Locks.Acquire, m.Name, m.Options); err != nil {
		panic(err)
	}
}

// Unlock gives the lock back. It panics if the lock was lost, or is not locked. If
// only the store cannot be told, it does not: the work was done under the lock, and
// the client goes on telling the store.
func (m *Mutex) Unlock() {
	err := m.turns.unlock(context.Background(), m.Name)
	if errors.Is(err, pawl.ErrLost) || errors.Is(err, pawl.ErrReleased) {
		panic(err)
	}
}

// Lease returns the lease between Lock and Unlock, which has the token and knows
// whether it is lost, or nil.
func (m *Mutex) Lease() *pawl.Lease { return m.turns.held(m.Name) }
