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

// The content of a lock file is three slots of one line of text each. Grants are
// written to slots 0 and 1 by turns and made durable before they are
// returned; slot 2 notes the release, or that a child has inherited the grant,
// and is never waited for. It is a slot of its own because a release that
// overwrote a grant without waiting for the disk could, in a power cut, leave no
// slot with the largest token.
//
// A slot is one page, so that a crash of the machine tears it rarely; the
// checksum tells when it has.
const (
	slotSize = 4096
	noteSlot = 2
	slots    = 3
	magic    = "pawl1"
	maxToken = 1<<53 - 1 // what JSON and Redis's numbers hold exactly
	maxLease = 256       // bytes of a lease's id
	maxText  = 512       // bytes of each text about a holder
	span     = 64        // tokens of a grant, see nextToken
)

// record describes the latest grant. Nothing depends on its truth but the
// token, which only the owner of the flock reads and writes.
type record struct {
	Name string `json:"name"`
	driver.Held
	Process process `json:"process"`
}

// note says that the grant with that token has been released, or that a child
// process has it, which will release it without a word.
type note struct {
	Released  uint64 `json:"released,omitempty"`
	Inherited uint64 `json:"inherited,omitempty"`
}

// state is what a lock file says.
type state struct {
	rec      record // rec.Token is 0 if there has been no grant
	slot     int    // that rec is in
	last     uint64 // the largest token known; more than rec's if a slot is damaged
	released bool   // by rec's holder
	durable  bool   // rec is known to be on the disk
}

var errCorrupt = errors.New("the lock file is damaged, so the largest token is not known")

// readState reads a lock file. The flock is not needed: a slot that is being
// written fails its checksum, and the other one is not written then.
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
		// Only a holder writes it, and there is none before its grant is durable.
		st.released = nt.Released == uint64(st.rec.Token)
		st.durable = st.released || nt.Inherited == uint64(st.rec.Token)
	}
	st.last = max(uint64(st.rec.Token), nt.Released, nt.Inherited)
	// Zeros are what a crash leaves of the first record of all, which was not
	// returned to anybody.
	if st.last == 0 && len(bytes.Trim(buf, "\x00")) > 0 {
		return st, errCorrupt
	}
	return st, nil
}

// decodeSlot reports whether a slot holds a whole line, which is then in v.
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

// encodeSlot returns v as a slot, or false if it is too long.
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

// shorten calls fits with texts that are shorter and shorter until it is content.
// The name of a lock and the id of a lease fit everywhere, without any text.
func shorten(h driver.Holder, why string, fits func(driver.Holder, string) bool) {
	for limit := maxText; ; limit /= 2 {
		for _, s := range []*string{&h.Who, &h.User, &h.Host, &h.Command, &why} {
			*s = truncate(*s, limit)
		}
		if len(h.Trace) > limit { // a part is of no use
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

// nextToken returns the token of the grant after that with the token last: it follows the clock,
// in microseconds, and is never smaller than last + 1. So tokens go on after the lock file was
// deleted by a cleaner, or with the runtime directory when its user logs out, and after an old one
// was restored from a backup. Nobody grants a million times a second.
//
// A grant whose token divides by span has the tokens up to the next one that does, too. It
// gets such a token only if all of these are in the past by that clock, so that reserved tokens
// take nothing from what a new file begins at. The first grant of a file has none: the file
// that was deleted may have had the tokens around the present time.
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

// reservedAfter returns how many tokens after it the grant with that token has.
func reservedAfter(token uint64) uint64 {
	if token%span == 0 {
		return span - 1
	}
	return 0
}
