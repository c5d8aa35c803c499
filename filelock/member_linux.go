// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// member is one of several holders of a name. It has a FIFO in NAME.held, named after its token. The FIFO does for
// the member what NAME.fifo does for an exclusive holder: a watcher sees the holder go, and a message in it asks
// the holder to release. Exclusion does not depend on it.
type member struct {
	place
	slot *os.File // the flock of its slot; nil if it is shared
}

// memberDir returns the directory with the members' FIFOs.
func (s *store) memberDir(enc string) queue { return queue{s, s.path(enc, heldSuffix)} }

// showMember makes the FIFO that shows a member to others.
func (h *hold) showMember(enc string) error {
	m := h.member
	m.place = place{
		queue:  h.store.memberDir(enc),
		ticket: newTicket(uint64(h.st.rec.Token)),
		who:    memberText(h.st.rec),
		fd:     -1,
	}
	if err := m.publish(); err != nil {
		return err
	}
	h.fifo = os.NewFile(uintptr(m.fd), m.queue.path(m.ticket))
	m.fd = -1
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

// free unlocks the slot.
func (m *member) free() {
	if m != nil && m.slot != nil {
		unflock(m.slot)
	}
}

// leave closes the slot's file and removes the FIFO's name. If a child has inherited the files, the FIFO stays
// for the child.
func (m *member) leave(inherited bool) {
	if m == nil {
		return
	}
	if m.slot != nil {
		m.slot.Close()
	}
	if !inherited && m.dir != "" {
		m.remove(m.ticket)
	}
}

// files appends the slot's file, which a child needs to inherit the slot.
func (m *member) files(files []*os.File) []*os.File {
	if m == nil || m.slot == nil {
		return files
	}
	return append(files, m.slot)
}

// sameFiles reports whether the slot's file is still in its place.
func (m *member) sameFiles() bool {
	return m == nil || m.slot == nil || sameFile(m.slot, m.slot.Name())
}

// shownMember is a member as other participants see it.
type shownMember struct {
	record
	known bool   // the record was read; a member that is leaving has none
	path  string // the path of the member's FIFO
}

// members returns the live members in the order of their tokens.
func (s *store) members(enc string) []shownMember {
	q := s.memberDir(enc)
	tickets, _ := q.list()
	var members []shownMember
	for _, t := range tickets {
		if !q.alive(t) {
			continue
		}
		m := shownMember{path: q.path(t)}
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
	kind := slices.IndexFunc(members, func(m shownMember) bool { return m.known })
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
