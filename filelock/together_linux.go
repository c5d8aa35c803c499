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

// Leases that are held together, shared ones and slots, hold the flock of
// NAME.lock in common (LOCK_SH), so that they and exclusive ones keep each other
// out by the kernel's doing. One of n slots holds NAME.slotI besides, for itself,
// with I below n: so there are never more than n.
//
// A lease joins with the flock of NAME.gate, one at a time. That makes the writing
// of records safe, and it settles the kind. If the lease gets NAME.lock for itself
// (LOCK_EX) for a moment, it is alone and may begin any kind. If it gets the lock
// only in common, it joins others, which are all of the kind of the newest record:
// each had to be of that kind to join.
//
// An exclusive lease needs no gate: it has NAME.lock for itself or not at all.

// maxGate bounds how long somebody waits at the gate. Within it is as much as a
// write to the disk; it takes longer only if the process in it was stopped.
const maxGate = 10 * time.Second

// gate waits until no other lease is joining. The caller calls leave to let in the
// next one. The error is errBusy if the wait takes too long.
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

// attemptTogether is attempt for a lease that is not exclusive.
func (s *store) attemptTogether(ctx context.Context, req *driver.Request, head bool) (*hold, error) {
	enc := encode(req.Name)
	if !head && s.lined(enc) {
		return nil, errBusy
	}
	leave, err := s.gate(ctx, enc)
	if err != nil {
		return nil, err
	}
	defer leave()
	since := driver.Now()
	path := s.path(enc, lockSuffix)
	f, err := s.lock(path, tryFlock)
	alone := err == nil
	if err == errBusy {
		f, err = s.lock(path, flockShared)
	}
	if err != nil {
		return nil, err
	}
	h := &hold{store: s, path: path, lock: f, since: since}
	if !head && s.lined(enc) {
		h.close()
		return nil, errBusy
	}
	if err := h.enter(enc, req, alone); err != nil {
		h.close()
		if _, other := errors.AsType[*driver.SlotsError](err); err != errBusy && !other {
			err = unavailable(err)
		}
		return nil, err
	}
	return h.known(), nil
}

// enter makes the owner of the flock, in common or alone, one of those who hold
// together.
func (h *hold) enter(enc string, req *driver.Request, alone bool) (err error) {
	if err := h.read(); err != nil {
		return err
	}
	if !alone {
		if err := h.st.rec.admits(req); err != nil {
			return err
		}
	}
	h.member = &member{}
	if req.Slots > 0 {
		if h.member.slot, err = h.store.takeSlot(enc, req.Slots); err != nil {
			return err
		}
	}
	if err := h.write(req); err != nil {
		return err
	}
	if err := h.sitDown(enc); err != nil || !alone {
		return err
	}
	// Nobody else can join in between; an exclusive lease can take it away.
	ok, err := flockShared(h.lock)
	if err == nil && !ok {
		err = errBusy
	}
	return err
}

// admits returns nil if req may join those who hold the name in common, of whom
// r is the newest record.
func (r record) admits(req *driver.Request) error {
	switch {
	case req.Shared && r.Slots == 0: // without a record of readers it is flock(1) -s, a reader too
		return nil
	case req.Slots > 0 && r.Slots == req.Slots:
		return nil
	case req.Slots > 0 && r.Slots > 0:
		return &driver.SlotsError{Held: r.Slots, Wanted: req.Slots}
	}
	return errBusy
}

// takeSlot takes one of n slots for itself.
func (s *store) takeSlot(enc string, n int) (*os.File, error) {
	for i := range n {
		f, err := s.lock(s.path(enc, fmt.Sprint(slotSuffix, i)), tryFlock)
		if err != errBusy {
			return f, err
		}
	}
	return nil, errBusy
}

// flockShared takes the lock of f in common with others, or turns one that f has
// for itself into that, and reports whether it is ours.
func flockShared(f *os.File) (bool, error) {
	err := control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
