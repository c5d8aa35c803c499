// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// Each of several holders of a name is a member. It has a FIFO in NAME.held, named after its token. The FIFO does
// for the member what NAME.fifo does for an exclusive holder: a watcher sees the holder go, and a message in it asks
// the holder to release. Exclusion does not depend on it.

// memberDir returns the directory with the members' FIFOs.
func (s *store) memberDir(enc string) queue { return queue{s, s.path(enc, heldSuffix)} }

// showMember makes the FIFO that shows a member to others.
func (h *hold) showMember(enc string) error {
	p := &place{queue: h.store.memberDir(enc), ticket: newTicket(uint64(h.st.rec.Token)), who: memberText(h.st.rec)}
	if err := p.publish(); err != nil {
		return err
	}
	h.fifo, h.hide = p.fifo, func() { p.remove(p.ticket) }
	return nil
}

func memberText(r record) string {
	var text []byte
	r.Name = "" // the name of the directory contains it
	shorten(r.Holder, r.Why, func(h driver.Holder, why string) bool {
		r.Holder, r.Why = h, why
		text, _ = json.Marshal(r)
		return len(text) <= maxTarget
	})
	return string(text)
}

// shownHolder is a holder as other participants see it.
type shownHolder struct {
	record
	known bool   // the record was read; a member that is leaving has none
	path  string // the path of the FIFO
}

// members returns the live members in the order of their tokens.
func (s *store) members(enc string) []shownHolder {
	q := s.memberDir(enc)
	tickets, _ := q.list()
	var members []shownHolder
	for _, t := range tickets {
		if !q.alive(t) {
			continue
		}
		m := shownHolder{path: q.path(t)}
		if text, err := os.Readlink(m.path + whoSuffix); err == nil {
			m.known = json.Unmarshal([]byte(text), &m.record) == nil
		}
		m.Token = driver.Token(t.seq)
		if m.PID == 0 {
			m.PID, m.Space = t.pid, t.space
		}
		members = append(members, m)
	}
	return members
}

// inTheWay returns watches on holders that keep req out. req may fit as soon as any one of them goes. There are no
// watches if nobody seems to be in the way.
func (s *store) inTheWay(enc string, req *driver.Request) ([]*watch, error) {
	w, err := openWatch(s.path(enc, fifoSuffix))
	if w != nil || err != nil {
		return []*watch{w}, err
	}
	members := s.members(enc)
	// All members are of one kind. A member that is leaving does not show which.
	kind := slices.IndexFunc(members, func(m shownHolder) bool { return m.known })
	alike := kind < 0 || members[kind].Shared == req.Shared && members[kind].Slots == req.Slots
	if alike && kind >= 0 && (req.Shared || len(members) < req.Slots) {
		return nil, nil
	}
	var ws []*watch
	for _, m := range members {
		w, err := openWatch(m.path)
		if err != nil {
			closeAll(ws)
			return nil, err
		}
		switch {
		case w == nil && alike: // m has just gone, so no watch would report it: try at once
			closeAll(ws)
			return nil, nil
		case w == nil:
			continue
		}
		ws = append(ws, w)
		if !alike {
			break // all have to go, so watch one after the other
		}
	}
	return ws, nil
}

func closeAll(ws []*watch) {
	for _, w := range ws {
		w.close()
	}
}
