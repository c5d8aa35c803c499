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

// maxMessage is PIPE_BUF. A message up to this length reaches a FIFO in one piece.
const maxMessage = 4096

// message is a line in the FIFO of a holder. It asks for the release of a lease. It may stay in the FIFO after
// that holder has gone, so the reader compares the id.
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

// Break implements driver.Store. Only the holder, or the end of its process, can free the flock. So Break asks the
// holder, and waits until it sees another holder or none. A record without a holder is not enough: a holder notes its
// release before it frees the flock. Then it closes the FIFO.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	line := message{lease, by, why}.encode()
	for had, asked := false, false; ; {
		open, held, err := s.ask(ctx, name, lease, line, &asked)
		if err != nil {
			return err
		}
		next, another := errors.AsType[*driver.HeldError](held)
		over := another || errors.Is(held, driver.ErrReleased)
		switch {
		case held == nil:
			had = true
		case !had || !over:
			return held
		case !open || another && next.Info.Holders[0].Lease != "":
			return nil
		}
		select {
		case <-ctx.Done():
			return s.refused(ctx, name, lease, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ask sends line to the holder of lease unless that was asked. It reports whether the holder's FIFO is open, and returns
// nil as held if the lease has the name.
func (s *store) ask(ctx context.Context, name, lease string, line []byte, asked *bool) (open bool, held, err error) {
	w, err := openWatch(s.holder(encode(name), lease).path)
	if err != nil {
		return false, nil, unavailable(err)
	}
	// Look up the holder after the FIFO is open. If it has the lease, it will read the message.
	_, held = s.holding(name, lease)
	if w == nil {
		return false, held, nil
	}
	defer w.close()
	if held == nil && !*asked {
		if *asked, err = w.send(ctx, line); err != nil {
			return true, nil, s.refused(ctx, name, lease, err)
		}
	}
	return true, held, nil
}

// holder returns the holder with a lease. If it is known no more, only the path of the FIFO is set.
func (s *store) holder(enc, lease string) shownHolder {
	for _, m := range s.members(enc) {
		if m.Lease == lease {
			return m
		}
	}
	h := shownHolder{path: s.path(enc, fifoSuffix)}
	if st, err := s.read(enc); err == nil && st.rec.Lease == lease {
		h.record = st.rec
	}
	return h
}

// send writes a message, and reports whether somebody can read it: the reader may have closed the FIFO just now.
// If the FIFO is full of earlier messages, send waits until ctx ends.
func (w *watch) send(ctx context.Context, line []byte) (sent bool, err error) {
	stop := context.AfterFunc(ctx, func() { w.f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err = w.f.Write(line); errors.Is(err, unix.EPIPE) {
		return false, nil
	}
	return err == nil, err
}

// refused returns an error that says why the lease is still held, and what the user can do.
func (s *store) refused(ctx context.Context, name, lease string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	path := s.path(encode(name), lockSuffix)
	switch p := s.holder(encode(name), lease).Process; {
	case p.PID == 0:
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

// listen reads the FIFO until end closes it. At times it checks that the lock file is in its place. When somebody
// breaks the lease or the lock file is gone, listen tells the client once, and returns. It does not release the
// lease: the client does that when it has stopped its work.
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
