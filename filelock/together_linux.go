// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// Leases that are held together, shared ones and slots, have a shared flock (LOCK_SH) on NAME.lock. So the kernel
// makes them and exclusive leases exclude each other. One of n slots also has an exclusive flock on NAME.slotI,
// with I below n, so there are never more than n.
//
// A lease joins under the flock of NAME.gate, one at a time. The gate makes it safe to write records, and decides
// the kind. If the lease gets NAME.lock exclusively (LOCK_EX) for a moment, it is alone and may begin any kind. If
// it gets only the shared flock, it joins others. They are all of the kind in the newest record, because each of
// them had to be of that kind to join.
//
// An exclusive lease needs no gate: it has an exclusive flock on NAME.lock or none.

// maxGate limits the time that a lease waits at the gate. Joining takes about as long as a write to the disk. It
// takes longer only if the process that joins was stopped.
const maxGate = 10 * time.Second

// gate waits until no other lease is joining. The caller calls leave to let in the next one. gate returns errBusy
// if it waits too long.
func (s *store) gate(ctx context.Context, enc string) (leave func(), err error) {
	pause, end := 100*time.Microsecond, driver.Now().Add(maxGate)
	for {
		f, err := s.lock(s.path(enc, gateSuffix), tryFlock)
		if err == nil {
			return func() { unflock(f); f.Close() }, nil
		}
		if err != errBusy || driver.Now() > end {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, 5*time.Millisecond)
	}
}

// enter makes the owner of the flock one of the holders. alone says that the flock is exclusive.
func (h *hold) enter(enc string, req *driver.Request, alone bool) (err error) {
	if err := h.read(); err != nil {
		return err
	}
	if !alone {
		if err := h.st.rec.admits(req); err != nil {
			return err
		}
	}
	if req.Slots > 0 {
		if h.slot, err = h.store.takeSlot(enc, req.Slots); err != nil {
			return err
		}
	}
	if err := h.write(req); err != nil {
		return err
	}
	if err := h.showMember(enc); err != nil || !alone {
		return err
	}
	// The gate keeps others from joining in between, but an exclusive lease can take the flock.
	ok, err := flockShared(h.lock)
	if err == nil && !ok {
		err = errBusy
	}
	return err
}

// admits returns nil if req may join the present holders, of which r is the newest record.
func (r record) admits(req *driver.Request) error {
	switch {
	case req.Shared && r.Slots == 0: // if r is not a reader's, flock(1) -s has the flock, a reader, too
		return nil
	case req.Slots > 0 && r.Slots == req.Slots:
		return nil
	case req.Slots > 0 && r.Slots > 0:
		return &driver.SlotsError{Held: r.Slots, Wanted: req.Slots}
	}
	return errBusy
}

// takeSlot takes the flock of one of n slots.
func (s *store) takeSlot(enc string, n int) (*os.File, error) {
	for i := range n {
		f, err := s.lock(s.path(enc, fmt.Sprint(slotSuffix, i)), tryFlock)
		if err != errBusy {
			return f, err
		}
	}
	return nil, errBusy
}

// flockShared takes a shared flock of f, or turns an exclusive one into a shared one. It reports whether f has the
// flock.
func flockShared(f *os.File) (bool, error) {
	err := control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
