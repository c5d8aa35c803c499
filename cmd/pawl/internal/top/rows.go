// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
)

// level says how important a line is.
type level int

const (
	fine level = iota
	doubtful
	wrong
)

// topRow is a row of the table: a lock.
type topRow struct {
	store              int // its number, from 1
	name, kind, holder string
	person             string        // the holder without its process
	held, first        time.Duration // how long the lock has been held, and the first waiter has waited; negative: unknown, or there is none
	waiting            int
	why                string
	level              level
}

// orders has the orders of the table, by the value of --sort.
var orders = map[string]struct {
	key     rune
	column  int
	up      bool // small values come first
	compare func(a, b *topRow) int
}{
	"name":    {'n', 0, true, func(a, b *topRow) int { return cmp.Compare(a.name, b.name) }},
	"holder":  {'h', 5, true, func(a, b *topRow) int { return cmp.Compare(a.holder, b.holder) }},
	"age":     {'a', 2, false, func(a, b *topRow) int { return cmp.Compare(b.held, a.held) }},
	"waiting": {'w', 3, false, func(a, b *topRow) int { return cmp.Compare(b.waiting, a.waiting) }},
	"first":   {'f', 4, false, func(a, b *topRow) int { return cmp.Compare(b.first, a.first) }},
}

// rows returns the rows of the table, sorted.
func (t *top) rows(now time.Time) (rows []topRow) {
	for i, s := range t.stores {
		stuck := map[string]bool{}
		for _, cycle := range s.Deadlocks {
			for _, b := range cycle {
				stuck[b.Name] = true
			}
		}
		often := s.Changing()
		for _, name := range history.Sorted(often) {
			if s.Locks[name] == nil { // nobody held it or waited in the last look
				rows = append(rows, topRow{store: i + 1, name: name, kind: "-", holder: "nobody", person: "nobody", held: -1, first: -1, why: changing(often[name])})
			}
		}
		for _, name := range s.Names() {
			r := rowOf(s.Locks[name], now)
			if n := often[name]; n > 0 {
				r.mark(fine, changing(n))
			}
			r.store = i + 1
			if len(s.Locks[name].Holders) == 0 && s.Shut != nil {
				r.mark(doubtful, "quarantine")
			}
			if stuck[name] {
				r.mark(wrong, "deadlock")
			}
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		c := orders[t.order].compare(&a, &b)
		if t.turned {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(b.held, a.held))
	})
	return rows
}

func rowOf(l *history.Lock, now time.Time) topRow {
	r := topRow{name: l.Name, kind: "-", holder: "nobody", person: "nobody", held: -1, first: -1, waiting: len(l.Waiters)}
	for i, h := range l.Holders {
		r.held = max(r.held, since(h.Acquired, now))
		if i == 0 {
			r.holder, r.person = h.Holder.String(), shortPerson(h.Holder)
			r.kind, r.why = topKind(&h, len(l.Holders)), h.Why
		}
		if h.Orphan {
			r.mark(doubtful, "orphan")
		}
		if h.Transaction != nil {
			r.mark(doubtful, "transaction")
		}
	}
	if n := len(l.Holders); n > 1 {
		more := fmt.Sprintf("+%d ", n-1)
		r.holder, r.person = more+r.holder, more+r.person
	}
	for _, w := range l.Waiters {
		r.first = max(r.first, since(w.Since, now))
	}
	for _, sp := range l.Spans {
		if sp.State == "overdue" {
			r.mark(doubtful, "overdue")
			break
		}
	}
	return r
}

// changing returns the text for a lock that changes hands often.
func changing(n int) string { return fmt.Sprintf("%d leases in %v", n, history.Lately) }

// mark puts a word before the reason, so that a long reason does not push it off the screen.
func (r *topRow) mark(of level, word string) {
	r.level = max(r.level, of)
	r.why = strings.TrimSuffix(word+": "+r.why, ": ")
}

func topKind(h *pawl.Held, holders int) string {
	switch {
	case h.Shared:
		return "shared"
	case h.Slots > 0:
		return fmt.Sprintf("%d of %d", holders, h.Slots)
	}
	return "exclusive"
}

// since returns how long ago t was, or -1 if t is zero. It returns 0 if t is in the future: another machine's
// clock may be ahead.
func since(t, now time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return max(now.Sub(t), 0)
}

// shortPerson returns p in one line, without process id and command.
func shortPerson(p pawl.Holder) string {
	p.PID, p.Command = 0, ""
	return p.String()
}

// table returns the table of rows. An arrow marks the column by which it is sorted.
func (t *top) table(rows []topRow, width int) display.Table {
	head := []string{"NAME", "KIND", "HELD", "WAIT", "FIRST", "HOLDER", "WHY"}
	o := orders[t.order]
	arrow := "↓"
	if o.up != t.turned {
		arrow = "↑"
	}
	head[o.column] += arrow
	all := display.Table{head}
	for _, r := range rows {
		holder := r.holder
		if width < 100 {
			holder = r.person
		}
		all = append(all, []string{display.Printable(r.name), r.kind, short(r.held), strconv.Itoa(r.waiting), short(r.first),
			display.Printable(holder), display.Printable(cmp.Or(r.why, "-"))})
	}
	if len(t.stores) > 1 {
		for i := range all {
			of := "S"
			if i > 0 {
				of = strconv.Itoa(rows[i-1].store)
			}
			all[i] = append([]string{of}, all[i]...)
		}
	}
	return all
}

// short returns a duration in at most six characters.
func short(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case d < 0:
		return "-"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}
