// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// maxMessage is PIPE_BUF: what is not longer reaches a FIFO in one piece.
const maxMessage = 4096

// message is a line in the FIFO of a name. It asks the holder of a lease to let
// go. It may stay in the FIFO when that holder has gone, so the reader compares
// the id.
type message struct {
	Break string         `json:"break"` // id of the lease
	By    *driver.Holder `json:"by,omitempty"`
	Why   string         `json:"why,omitempty"`
}

func (m message) encode() (line []byte) {
	var by driver.Holder
	if m.By != nil {
		by = *m.By
	}
	shorten(by, m.Why, func(h driver.Holder, why string) bool {
		m.By, m.Why = &h, why
		line, _ = json.Marshal(m)
		return len(line) < maxMessage
	})
	return append(line, '\n')
}

// Break implements driver.Store. The flock is the victim's, and only the
// victim, or the end of its process, can let it go.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	line := message{lease, by, why}.encode()
	over, err := s.askToGo(ctx, name, lease, line)
	for !over && err == nil { // its FIFO was not there yet, or has gone before it
		select {
		case <-ctx.Done():
			return s.refused(ctx, name, lease, ctx.Err())
		case <-time.After(time.Millisecond):
		}
		if over, err = s.askToGo(ctx, name, lease, line); isOver(err) {
			return nil
		}
	}
	return err
}

// askToGo asks the holder of a lease to let go, and waits. It reports whether
// the lease is over; if not, the FIFO has gone and the holder has not.
func (s *store) askToGo(ctx context.Context, name, lease string, line []byte) (over bool, err error) {
	w, err := openWatch(s.fifo(encode(name), lease))
	if err != nil {
		return false, unavailable(err)
	}
	if w != nil {
		defer w.close()
	}
	// The holder is looked up after the FIFO is open: if it is the one we mean, it
	// is the one who will read, or it goes and we see it go.
	if _, err := s.holding(name, lease); err != nil {
		return false, err
	}
	if w == nil {
		return false, nil
	}
	if err := w.send(ctx, line); errors.Is(err, unix.EPIPE) {
		_, held := s.holding(name, lease)
		return isOver(held), nil
	} else if err != nil {
		return false, s.refused(ctx, name, lease, err)
	}
	gone := make(chan struct{})
	w.whenGone(func() { close(gone) })
	for {
		// The FIFO tells when the holder goes, unless another one comes in the
		// same moment or the lease is passed on; the record tells of these. That nobody
		// holds it tells less: the holder notes its release before it lets the flock go.
		left := false
		select {
		case <-ctx.Done():
			return false, s.refused(ctx, name, lease, ctx.Err())
		case <-gone:
			left = true
		case <-time.After(100 * time.Millisecond):
		}
		_, held := s.holding(name, lease)
		switch next := (*driver.HeldError)(nil); {
		case left:
			return isOver(held), nil
		case errors.As(held, &next) && next.Info.Holders[0].Lease != "":
			return true, nil
		}
	}
}

// fifo returns the path of the FIFO that the holder of a lease reads.
func (s *store) fifo(enc, lease string) string {
	for _, m := range s.members(enc) {
		if m.Lease == lease {
			return m.path
		}
	}
	return s.path(enc, fifoSuffix)
}

func isOver(err error) bool {
	return errors.Is(err, driver.ErrReleased) || errors.Is(err, driver.ErrHeld)
}

// send writes a message, at most until ctx ends if nobody has read earlier ones.
func (w *watch) send(ctx context.Context, line []byte) error {
	stop := context.AfterFunc(ctx, func() { w.f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := w.f.Write(line)
	return err
}

// refused says why the lease is held still, and what can be done.
func (s *store) refused(ctx context.Context, name, lease string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	path := s.path(encode(name), lockSuffix)
	p, ok := s.process(encode(name), lease)
	switch {
	case !ok:
		return err
	case p.dead():
		return fmt.Errorf("pid %d, which took the lease, has ended, but what it started goes on and has it: "+
			"see who with: fuser -v '%s': %w", p.PID, path, err)
	case !p.here():
		return fmt.Errorf("pid %d, in another container or machine, has been asked but has not let go: wait, or end it there: %w", p.PID, err)
	case p.stopped():
		return fmt.Errorf("pid %d has been asked but is stopped: let it go on with kill -CONT %d, or end it with kill -KILL %d: %w",
			p.PID, p.PID, p.PID, err)
	default:
		return fmt.Errorf("pid %d has been asked but has not let go: wait, or end it with kill %d: %w", p.PID, p.PID, err)
	}
}

// process returns the process that has taken a lease.
func (s *store) process(enc, lease string) (process, bool) {
	for _, m := range s.members(enc) {
		if m.Lease == lease {
			return m.Process, true
		}
	}
	st, err := s.read(enc)
	return st.rec.Process, err == nil && st.rec.Lease == lease
}

// listen reads the FIFO until it is closed, which end does. Now and then it looks
// whether the lock file still is in its place. It tells the client once that the lease is over. That is asked for back
// and not released: the client does that when it has stopped.
func (h *hold) listen() {
	r := bufio.NewReaderSize(h.fifo, maxMessage)
	for {
		h.fifo.SetReadDeadline(time.Now().Add(lookEvery))
		line, err := r.ReadSlice('\n')
		var m message
		var loss *driver.LostError
		switch {
		case err == nil:
			if json.Unmarshal(line, &m) == nil && m.Break == h.st.rec.Lease {
				loss = &driver.LostError{Reason: driver.Broken, By: m.By, Why: m.Why}
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			errors.As(h.look(), &loss)
		case !errors.Is(err, bufio.ErrBufferFull): // too long to be a message
			return
		}
		if loss != nil {
			h.lose(loss)
			return
		}
	}
}

func (h *hold) lose(why *driver.LostError) {
	h.mu.Lock()
	h.recall = true
	h.mu.Unlock()
	h.store.tell(driver.Event{Kind: driver.Lost, Name: h.st.rec.Name, Lease: h.st.rec.Lease, Loss: why})
}
