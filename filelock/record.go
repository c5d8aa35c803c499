// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// A lock file consists of three slots with one line of text each. Grants go to slots 0 and 1 in turn, and each is
// on disk before it is returned. Slot 2 contains a note: the grant was released, or a child has inherited it.
// Nobody waits until the note is on disk. So the note has a separate slot: if a release overwrote a grant and the
// power failed, the file could be left without the largest token.
//
// A slot is one page, so a crash of the machine rarely leaves half of it. The checksum shows if it has.
const (
	slotSize = 4096
	noteSlot = 2
	slots    = 3
	magic    = "pawl1"
	maxToken = 1<<53 - 1 // the largest integer that JSON and Redis represent exactly
	maxLease = 256       // bytes of a lease's id
	maxText  = 512       // bytes of each text about a holder
	span     = 64        // tokens that a grant has with its reserved ones; see nextToken
)

// record describes the latest grant. Only the token has to be right; only the owner of the flock reads and writes
// it.
type record struct {
	Name string `json:"name"`
	driver.Held
	Process process `json:"process"`
}

// note says that the grant with the token Released was released, or that a child process has the grant with the
// token Inherited. The child's end releases that grant, without a note.
type note struct {
	Released  uint64 `json:"released,omitempty"`
	Inherited uint64 `json:"inherited,omitempty"`
}

// state is the content of a lock file.
type state struct {
	rec      record // the newest record; rec.Token is 0 before the first grant
	slot     int    // the slot that contains rec
	last     uint64 // the largest known token; larger than rec.Token if a slot is damaged
	released bool   // the holder in rec has released its lease
	durable  bool   // rec is known to be on disk
}

var errCorrupt = errors.New("the lock file is damaged, so the largest token is not known")

// readState reads a lock file. It works without the flock: a slot that is being written fails its checksum, and
// the other one is intact then.
func readState(f io.ReaderAt) (state, error) {
	buf := make([]byte, slots*slotSize)
	if _, err := f.ReadAt(buf, 0); err != nil && err != io.EOF {
		return state{}, err
	}
	st := state{slot: 1}
	for i := range noteSlot {
		var r record
		if decodeSlot(buf[i*slotSize:(i+1)*slotSize], &r) && r.Token > st.rec.Token {
			st.rec, st.slot = r, i
		}
	}
	var nt note
	if decodeSlot(buf[noteSlot*slotSize:], &nt) {
		// Only a holder writes a note, and a lease has no holder before its grant is on disk.
		st.released = nt.Released == uint64(st.rec.Token)
		st.durable = st.released || nt.Inherited == uint64(st.rec.Token)
	}
	st.last = max(uint64(st.rec.Token), nt.Released, nt.Inherited)
	// A crash during the very first grant can leave zeros. That grant was not returned to anybody.
	if st.last == 0 && len(bytes.Trim(buf, "\x00")) > 0 {
		return st, errCorrupt
	}
	return st, nil
}

// decodeSlot decodes a slot into v. It returns false if the slot does not contain a whole line.
func decodeSlot(slot []byte, v any) bool {
	const head = len(magic + " 01234567 ")
	line, _, whole := bytes.Cut(slot, []byte("\n"))
	if !whole || len(line) < head || !bytes.HasPrefix(line, []byte(magic+" ")) {
		return false
	}
	sum, err := strconv.ParseUint(string(line[len(magic)+1:head-1]), 16, 32)
	body := line[head:]
	return err == nil && crc32.ChecksumIEEE(body) == uint32(sum) && json.Unmarshal(body, v) == nil
}

// encodeSlot returns v as a slot. It returns false if v is too long.
func encodeSlot(v any) ([]byte, bool) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, false
	}
	text := bytes.TrimRight(body.Bytes(), "\n")
	slot := fmt.Appendf(make([]byte, 0, slotSize), "%s %08x %s\n", magic, crc32.ChecksumIEEE(text), text)
	if len(slot) >= slotSize {
		return nil, false
	}
	for len(slot) < slotSize-1 {
		slot = append(slot, ' ')
	}
	return append(slot, '\n'), true
}

// encodeRecord returns r as a slot.
func encodeRecord(r record) (slot []byte) {
	shorten(r.Holder, r.Why, func(h driver.Holder, why string) (ok bool) {
		r.Holder, r.Why = h, why
		slot, ok = encodeSlot(r)
		return ok
	})
	return slot
}

// shorten calls fits with shorter and shorter texts until it returns true. Without any text, a lock's name and a
// lease's id always fit.
func shorten(h driver.Holder, why string, fits func(driver.Holder, string) bool) {
	for limit := maxText; ; limit /= 2 {
		for _, s := range []*string{&h.Who, &h.User, &h.Host, &h.Command, &why} {
			*s = truncate(*s, limit)
		}
		if len(h.Trace) > limit { // a part of a trace is useless
			h.Trace = ""
		}
		if fits(h, why) || limit == 0 {
			return
		}
	}
}

// truncate cuts s to at most n bytes, between runes.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// nextToken returns the token of the grant that follows the token last: the clock in microseconds, but at least
// last + 1. So tokens go on if a cleaner deletes the lock file, if the runtime directory disappears when its user
// logs out, or if an old file is restored from a backup. No lock is granted a million times a second.
//
// If a token is a multiple of span, the tokens up to the next multiple are reserved for the same grant. A grant
// gets such a token only if all of its reserved tokens are in the past by the clock, so that a new file never
// begins among them. The first grant of a file has none reserved: the previous file may have had the tokens around
// the present time.
func nextToken(last uint64, micros int64) (uint64, error) {
	now := uint64(min(max(micros, 1), maxToken-3*span))
	switch {
	case last >= maxToken-2*span:
		return 0, errors.New("the token has reached 2^53-1: choose another name")
	case last == 0 && now%span == 0:
		return now + 1, nil
	case last == 0:
		return now, nil
	}
	next := last + reservedAfter(last) + 1
	if whole := now/span*span - span; now >= span && whole >= next {
		return whole, nil
	}
	if next%span == 0 {
		return next + 1, nil
	}
	return next, nil
}

// reservedAfter returns the number of tokens that are reserved for the grant with that token.
func reservedAfter(token uint64) uint64 {
	if token%span == 0 {
		return span - 1
	}
	return 0
}
