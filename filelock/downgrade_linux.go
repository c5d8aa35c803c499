// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Downgrader = (*grant)(nil)

// Downgrade implements driver.Downgrader. It fails when a child process may have
// the files: the child would show an exclusive holder for ever.
//
// The record becomes a shared one before the flock does, at the gate: so nobody
// that joins takes the lease for an exclusive one that has crashed.
func (g *grant) Downgrade(ctx context.Context) error {
	h := g.hold
	enc := encode(g.name)
	leave, err := h.store.gate(ctx, enc)
	if err == errBusy {
		err = unavailable(fmt.Errorf("%s: somebody keeps it", h.store.path(enc, gateSuffix)))
	}
	if err != nil {
		return err
	}
	defer leave()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := g.check(); err != nil {
		return err
	}
	switch {
	case h.st.rec.Shared:
		return nil
	case h.member != nil:
		return errors.New("filelock: a slot cannot become a shared lease")
	case h.inherited:
		return fmt.Errorf("filelock: a child process has inherited the lease: %w", errors.ErrUnsupported)
	}
	return h.lower(enc)
}

// lower makes an exclusive hold a shared one.
func (h *hold) lower(enc string) error {
	exclusive := h.fifo
	h.member = &member{}
	st := h.st
	h.st.rec.Shared = true
	err := h.sitDown(enc)
	if err == nil {
		err = h.record(h.st.rec)
	}
	if err != nil {
		if h.fifo != exclusive {
			h.fifo.Close()
		}
		h.member.standUp(false)
		h.fifo, h.member, h.st = exclusive, nil, st
		return unavailable(err)
	}
	ok, err := flockShared(h.lock)
	exclusive.Close() // wakes the head of the queue
	if h.listening {
		go h.listen(h.fifo)
	}
	switch {
	case err != nil:
		return unavailable(err)
	case !ok:
		return &driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("somebody else has taken the flock of %s", h.path)}
	}
	return nil
}
