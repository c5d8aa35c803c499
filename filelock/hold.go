// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// hold is a flock, and the files that its owner has open for the lease.
type hold struct {
	store *store
	lock  *os.File
	since driver.Instant

	mu        sync.Mutex
	slot      *os.File // one of n slots; else nil
	fifo      *os.File // open while the lease is held; nil on Windows
	hide      func()   // removes the name of the FIFO of a shared lease or slot; else nil
	st        state
	inherited bool // a child process may have the files, too
	recall    bool // somebody has broken the lease, or the lock file is gone
	ended     bool
}

func (h *hold) token() uint64 { return uint64(h.st.rec.Token) }

// answer returns the answer for a lease that is held. Waited is always true, because nobody knows which processes
// wait.
func (h *hold) answer() driver.Answer {
	return driver.Answer{Granted: true, Token: h.token(), Spare: reservedAfter(h.token()), Waited: true, Since: h.since, Session: h.store}
}

func (h *hold) recalled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recall
}

// Renew implements driver.Store. Leases have no TTL here. Renew only checks that nobody has deleted the lock file.
func (s *store) Renew(ctx context.Context, l driver.Ref, _ time.Duration) (driver.Renewal, error) {
	h := s.held(l.Lease)
	switch {
	case ctx.Err() != nil:
		return driver.Renewal{}, &driver.Failure{Err: ctx.Err()}
	case h == nil:
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
	}
	return driver.Renewal{Since: driver.Now()}, h.look()
}

func (h *hold) look() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.check()
}

// End implements driver.Store. It ignores ctx, because it never waits.
func (s *store) End(_ context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	if l, ok := leases.LoadAndDelete(key{s, l.Lease}); ok {
		return true, l.(interface{ end() error }).end()
	}
	return false, nil
}

// Files implements driver.Inheriter. It returns the lock file, the file of the slot, and the FIFO that shows that
// the name is held.
func (s *store) Files(l driver.Ref) []*os.File {
	h := s.held(l.Lease)
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.inherited {
		h.inherited = true
		h.note(note{Inherited: h.token()})
	}
	files := h.locks()
	if h.fifo != nil {
		files = append(files, h.fifo)
	}
	return files
}

// locks returns the files whose flocks exclude others.
func (h *hold) locks() []*os.File {
	if h.slot == nil {
		return []*os.File{h.lock}
	}
	return []*os.File{h.lock, h.slot}
}

// check returns nil if the lock files are in their places. If one is not, other processes make a new file and lock
// that.
func (h *hold) check() error {
	for _, f := range h.locks() {
		if !h.ended && !sameFile(f) {
			return &driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the lock file %s was deleted while it was in use", f.Name())}
		}
	}
	return nil
}

var clock = time.Now // a variable for the tests of tokens

// write records the next grant, for req, and returns when it is on disk. Until then the newest record stays in its
// slot. So whenever a crash comes, the file has the largest token that was ever returned, or a larger one.
func (h *hold) write(req *driver.Request) error {
	// The last holder may have been killed before its record was on disk. That record is the newest nevertheless,
	// and the slot that this grant overwrites may contain the only other one.
	if !h.st.durable && h.st.rec.Token > 0 {
		if err := datasync(h.lock); err != nil {
			return err
		}
	}
	now := clock().Round(0)
	token, err := nextToken(h.st.last, now.UnixMicro())
	if err != nil {
		return fmt.Errorf("%s: %w", h.lock.Name(), err)
	}
	rec := record{
		Name: req.Name,
		Held: driver.Held{
			Holder: *req.Holder, Lease: req.Lease, Token: driver.Token(token), Why: req.Why, Acquired: now,
			Shared: req.Shared, Slots: req.Slots,
		},
		Process: self(),
	}
	return h.record(rec)
}

// record makes rec the newest record.
func (h *hold) record(rec record) error {
	slot := 1 - h.st.slot
	_, err := h.lock.WriteAt(encodeRecord(rec), int64(slot)*slotSize)
	if err == nil {
		err = datasync(h.lock)
	}
	if err != nil {
		h.erase(slot)
		return err
	}
	h.st = state{rec: rec, slot: slot, last: uint64(rec.Token), durable: true}
	return nil
}

// erase removes a record that could not be made durable. If it is the first record, erase truncates the file:
// otherwise a full disk would leave a file that looks damaged.
func (h *hold) erase(slot int) {
	if h.st.last == 0 {
		h.lock.Truncate(0)
		return
	}
	h.lock.WriteAt(bytes.Repeat([]byte{' '}, slotSize), int64(slot)*slotSize)
}

// read reads the lock file into h.st.
func (h *hold) read() (err error) {
	if h.st, err = readState(h.lock); err != nil {
		return fmt.Errorf("%s: %w", h.lock.Name(), err)
	}
	return nil
}

// known adds h to the leases of this process, and starts to listen for a Break.
func (h *hold) known() *hold {
	leases.Store(key{h.store, h.st.rec.Lease}, h)
	go h.listen()
	return h
}

// end ends the hold. The note only helps others, so an error of writing it does no harm. The FIFO is closed last,
// because that wakes the head of the queue.
//
// If a child process has the files, the hold is now the child's: end neither unlocks nor writes the note. Holders
// of shared leases and slots write no note, as their FIFOs show who holds.
func (h *hold) end() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.check()
	h.ended = true
	if !h.inherited {
		h.note(note{Released: h.token()})
	}
	h.close()
	return err
}

// note writes a note. It saves the next holder a wait for the disk.
func (h *hold) note(n note) {
	if slot, ok := encodeSlot(n); ok && h.hide == nil {
		h.lock.WriteAt(slot, noteSlot*slotSize)
	}
}

// close closes the files. It unlocks explicitly, because another goroutine may be between fork and exec, with
// copies of the files that would keep the flock.
func (h *hold) close() {
	for _, f := range h.locks() {
		if !h.inherited {
			unflock(f)
		}
		f.Close()
	}
	if h.hide != nil && !h.inherited {
		h.hide()
	}
	if h.fifo != nil {
		h.fifo.Close()
	}
}
