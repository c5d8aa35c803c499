// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-go/pawl"
)

// turns contains the leases of an adapter whose Unlock gets a name, but not a lease. After a loss, two callers in
// this process might both hold the name, as far as the adapter knows. Then Unlock of the first would end the lease
// of the second. So one caller at a time uses a name, from Lock to Unlock, even if the lease is lost in between.
type turns struct {
	mu    sync.Mutex
	names map[string]*turn
}

// turn is a name that a caller holds or waits for.
type turn struct {
	taken chan struct{} // full from Lock to Unlock; a channel, so that ctx can end the waiting

	// Guarded by turns.mu.
	users int
	lease *pawl.Lease // nil if the name is not locked
}

var errNotHeld = fmt.Errorf("it is not locked here: unlock once for each lock: %w", pawl.ErrReleased)

// join returns the turn of name. The caller must call leave.
func (t *turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = make(map[string]*turn)
	}
	u := t.names[name]
	if u == nil {
		u = &turn{taken: make(chan struct{}, 1)}
		t.names[name] = u
	}
	u.users++
	return u
}

func (t *turns) leave(name string, u *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(t.names, name)
	}
}

// acquirer is a method of pawl.Client.
type acquirer func(ctx context.Context, name string, opts ...pawl.Option) (*pawl.Lease, error)

// lock waits for its turn and for a lease.
func (t *turns) lock(ctx context.Context, acquire acquirer, name string, opts []pawl.Option) error {
	u := t.join(name)
	select {
	case u.taken <- struct{}{}:
		return t.fill(ctx, u, acquire, name, opts)
	case <-ctx.Done():
		t.leave(name, u)
		return ctx.Err()
	}
}

// tryLock returns pawl.ErrHeld if another caller has the turn.
func (t *turns) tryLock(ctx context.Context, acquire acquirer, name string, opts []pawl.Option) error {
	u := t.join(name)
	select {
	case u.taken <- struct{}{}:
		return t.fill(ctx, u, acquire, name, opts)
	default:
		t.leave(name, u)
		return &pawl.Error{Op: "try", Name: name, Err: pawl.ErrHeld}
	}
}

// fill acquires the lease of a turn, or ends the turn.
func (t *turns) fill(ctx context.Context, u *turn, acquire acquirer, name string, opts []pawl.Option) (err error) {
	var lease *pawl.Lease
	defer func() {
		if lease == nil { // also if a driver panics
			<-u.taken
			t.leave(name, u)
		}
	}()
	if lease, err = acquire(ctx, name, opts...); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u.lease = lease
	return nil
}

// unlock releases the lease and ends the turn. It returns ErrReleased if the name is not locked, and otherwise the
// errors of Lease.Release.
func (t *turns) unlock(ctx context.Context, name string) error {
	t.mu.Lock()
	u := t.names[name]
	if u == nil || u.lease == nil {
		t.mu.Unlock()
		return &pawl.Error{Op: "release", Name: name, Err: errNotHeld}
	}
	lease := u.lease
	u.lease = nil
	t.mu.Unlock()
	defer func() {
		<-u.taken
		t.leave(name, u)
	}()
	return lease.Release(ctx)
}

// held returns the lease on name, or nil.
func (t *turns) held(name string) *pawl.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.names[name]; u != nil {
		return u.lease
	}
	return nil
}

// exchange replaces old by next. It returns false if old is no longer there.
func (t *turns) exchange(name string, old, next *pawl.Lease) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.names[name]
	if u == nil || u.lease != old {
		return false
	}
	u.lease = next
	return true
}
