// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// grant implements driver.Grant. hold.mu guards what changes.
type grant struct {
	hold  *hold
	name  string
	lease string
	token uint64
	since driver.Instant

	ended  bool
	lost   error       // what the holder was told, or is to be told by OnLost
	notify func(error) // from OnLost, until called
}

var _ driver.Reserver = (*grant)(nil)

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return g.token }

// Reserved implements driver.Reserver. Nobody knows which processes wait. Without the lock
// file nothing is left to be handed over: another process may have the name.
func (g *grant) Reserved() (tokens uint64, others bool) {
	tokens = reservedAfter(g.token)
	if tokens == 0 {
		return 0, true
	}
	g.hold.mu.Lock()
	defer g.hold.mu.Unlock()
	if g.check() != nil {
		return 0, true
	}
	return tokens, true
}

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant { return g.since }

// Renew implements driver.Grant. There is no time to live; all that can have
// happened is that somebody has deleted the lock file.
func (g *grant) Renew(ctx context.Context, _ time.Duration) (driver.Instant, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	g.hold.mu.Lock()
	defer g.hold.mu.Unlock()
	now := driver.Now()
	return now, g.check()
}

// Release implements driver.Grant. It does not look at ctx, as there is nothing
// to wait for. A second call does nothing and returns nil.
func (g *grant) Release(context.Context) error {
	g.hold.mu.Lock()
	defer g.hold.mu.Unlock()
	if g.ended {
		return nil
	}
	err := g.check()
	g.ended, g.notify = true, nil
	g.hold.end()
	g.hold.store.together.Delete(g.lease)
	return err
}

// Files is for a child process: the flock, that of the slot, and the
// presence, which tells others that the flock is held. The files stay the
// grant's own; they are closed by Release.
func (g *grant) Files() []*os.File {
	h := g.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.ended {
		return nil
	}
	if !h.inherited {
		h.inherited = true
		h.note(note{Inherited: g.token})
	}
	files := h.member.files([]*os.File{h.lock})
	if h.fifo != nil {
		files = append(files, h.fifo)
	}
	return files
}

// check returns nil if g is the holder, and why not otherwise. Without the
// lock file in its place, others make a new one and lock that.
func (g *grant) check() error {
	switch {
	case g.ended:
		return driver.ErrReleased
	case !sameFile(g.hold.lock, g.hold.path), !g.hold.member.sameFiles():
		return &driver.LostError{
			Reason: driver.Gone,
			Err:    fmt.Errorf("the lock file %s was deleted while it was in use", g.hold.path),
		}
	}
	return nil
}
