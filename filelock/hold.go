// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"bytes"
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

	mu        sync.Mutex
	fifo      *os.File // presence; nil where there is no such thing
	member    *member  // if the flock is held in common with others
	st        state
	current   *grant
	inherited bool // a child process may have the files too
	listening bool // somebody reads the FIFO
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

// living are the holds that have not ended. Nobody else may have a reference to
// one whose lease is held for the life of the process, and its files must not be
// closed by their finalizers.
var living sync.Map

func (h *hold) grant(since driver.Instant) *grant {
	living.Store(h, nil)
	h.current = &grant{hold: h, token: uint64(h.st.rec.Token), lease: h.st.rec.Lease, name: h.st.rec.Name, since: since}
	return h.current
}

// end ends the hold. The note is for those who look: a failure to write
// it harms nobody. The FIFO is closed last, because that is what the head of
// the queue waits for. The explicit unlock makes harmless that another
// goroutine may be between fork and exec, with copies of our files.
//
// Where a child has the files, it is the child's hold now: neither is the
// flock ours to free nor would the note be true. Those who hold together note
// nothing: their FIFOs tell who is there.
func (h *hold) end() {
	living.Delete(h)
	if !h.inherited {
		h.note(note{Released: uint64(h.st.rec.Token)})
		h.member.free()
		unflock(h.lock)
	}
	h.close()
}

// note spares the next holder a wait for the disk.
func (h *hold) note(n note) {
	if slot, ok := encodeSlot(n); ok && h.member == nil {
		h.lock.WriteAt(slot, noteSlot*slotSize)
	}
}

// drop lets go of a flock that did not become a grant.
func (h *hold) drop() {
	h.member.free()
	unflock(h.lock)
	h.close()
}

func (h *hold) close() {
	h.lock.Close()
	h.member.standUp(h.inherited)
	if h.fifo != nil {
		h.fifo.Close()
	}
}
