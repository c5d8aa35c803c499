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

// hold is a flock, with what its owner holds open beside it.
type hold struct {
	store *store
	path  string // of the lock file
	lock  *os.File
	since driver.Instant

	mu        sync.Mutex
	fifo      *os.File // presence; nil where there is no such thing
	member    *member  // if the flock is held in common with others
	st        state
	inherited bool // a child process may have the files too
	recall    bool // somebody has asked for the lease back, or the lock file is gone
	ended     bool
}

func (h *hold) token() uint64 { return uint64(h.st.rec.Token) }

// answer is what the client gets. Nobody knows which processes wait.
func (h *hold) answer() driver.Answer {
	return driver.Answer{Granted: true, Token: h.token(), Spare: reservedAfter(h.token()), Waited: true, Since: h.since, Session: h.store}
}

func (h *hold) recalled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recall
}

// Renew implements driver.Store. There is no time to live; all that can have
// happened is that somebody has deleted the lock file.
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

// End implements driver.Store. It does not look at ctx, as there is nothing
// to wait for.
func (s *store) End(_ context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	if l, ok := leases.LoadAndDelete(key{s, l.Lease}); ok {
		return true, l.(interface{ end() error }).end()
	}
	return false, nil
}

// Files implements driver.Inheriter: the flock, the flock of the slot, and the
// presence, which tells others that the flock is held.
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
	files := h.member.files([]*os.File{h.lock})
	if h.fifo != nil {
		files = append(files, h.fifo)
	}
	return files
}

// check returns nil while the lock file is in its place. Without it, others make a new one and lock that.
func (h *hold) check() error {
	if h.ended || sameFile(h.lock, h.path) && h.member.sameFiles() {
		return nil
	}
	return &driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the lock file %s was deleted while it was in use", h.path)}
}

var clock = time.Now // a variable for the tests of tokens

// write records the next grant, for req, and returns when the disk has it. The
// newest record stays in its own slot until then, so a crash at any moment
// leaves the largest token that was ever returned, or a larger one.
func (h *hold) write(req *driver.Request) error {
	// The last holder may have been killed before its record was on the disk. It
	// is the newest nevertheless, and the slot that we are about to write may be
	// the only other one there is.
	if !h.st.durable && h.st.rec.Token > 0 {
		if err := datasync(h.lock); err != nil {
			return err
		}
	}
	now := clock().Round(0)
	token, err := nextToken(h.st.last, now.UnixMicro())
	if err != nil {
		return fmt.Errorf("%s: %w", h.path, err)
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

// erase takes back a record that could not be made durable. The first record
// of a file goes together with its space, or a full disk would leave a file
// that looks damaged.
func (h *hold) erase(slot int) {
	if h.st.last == 0 {
		h.lock.Truncate(0)
		return
	}
	h.lock.WriteAt(bytes.Repeat([]byte{' '}, slotSize), int64(slot)*slotSize)
}

// read reads what the lock file says.
func (h *hold) read() (err error) {
	if h.st, err = readState(h.lock); err != nil {
		return fmt.Errorf("%s: %w", h.path, err)
	}
	return nil
}

// known makes h known to this process, and to others that ask for it back.
func (h *hold) known() *hold {
	leases.Store(key{h.store, h.st.rec.Lease}, h)
	go h.listen()
	return h
}

// end ends the hold. The note is for those who look: a failure to write
// it harms nobody. The FIFO is closed last, because that is what the head of
// the queue waits for.
//
// Where a child has the files, it is the child's hold now: neither is the
// flock ours to free nor would the note be true. Those who hold together note
// nothing: their FIFOs tell who is there.
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

// note spares the next holder a wait for the disk.
func (h *hold) note(n note) {
	if slot, ok := encodeSlot(n); ok && h.member == nil {
		h.lock.WriteAt(slot, noteSlot*slotSize)
	}
}

// close lets the flock go. The explicit unlock makes harmless that another
// goroutine may be between fork and exec, with copies of our files.
func (h *hold) close() {
	if !h.inherited {
		h.member.free()
		unflock(h.lock)
	}
	h.lock.Close()
	h.member.standUp(h.inherited)
	if h.fifo != nil {
		h.fifo.Close()
	}
}
