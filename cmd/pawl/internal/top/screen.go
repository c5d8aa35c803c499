// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

// draw draws everything on s.
func (t *top) draw(s tcell.Screen, now time.Time) {
	width, height := s.Size()
	s.Clear()
	if width < 1 || height < 1 {
		return // the terminal has no size yet
	}
	y := 0
	line := func(style tcell.Style, text string) {
		if y < height-1 {
			s.PutStrStyled(0, y, display.Cut(text, width), style)
		}
		y++
	}
	rows := t.rows(now)
	line(tcell.StyleDefault, t.title(rows, now, width))
	notes := t.notes(now)
	for i, n := range notes {
		if left := height - 5 - y; i+1 < len(notes) && left <= 1 { // leave room for the table
			line(t.style(wrong), fmt.Sprintf("… and %d more like these", len(notes)-i))
			break
		}
		line(t.style(n.level), n.text)
	}
	lines := t.lines(rows, width)
	line(tcell.StyleDefault.Reverse(true), lines[0]+strings.Repeat(" ", max(width-utf8.RuneCountInString(lines[0]), 0)))
	room := max(height-1-y, 1)
	t.first = max(min(t.first, len(rows)-room), 0)
	last := min(t.first+room, len(rows))
	for i := t.first; i < last; i++ {
		line(t.style(rows[i].level), lines[i+1])
	}
	keys := "q quit  sort: n name  h holder  a age  w waiting  f first wait"
	if last-t.first < len(rows) {
		keys = fmt.Sprintf("q quit  n name  h holder  a age  w waiting  f first  ↑↓ move  %d-%d of %d", t.first+1, last, len(rows))
	}
	s.PutStrStyled(0, height-1, display.Cut(keys, width), tcell.StyleDefault) // not dim: some terminals do not show dim text
	s.Show()
}

// title returns the first line: the number of locks and waiters, the store, and the time.
func (t *top) title(rows []topRow, now time.Time, width int) string {
	held, waiting := 0, 0
	for _, r := range rows {
		if r.holder != "nobody" {
			held++
		}
		waiting += r.waiting
	}
	text := fmt.Sprintf("pawl top  held %d, waiting %d", held, waiting)
	clock := now.Local().Format(time.TimeOnly)
	if len(t.stores) == 1 {
		text += "  " + display.Printable(t.stores[0].Name)
		if s := t.stores[0]; s.Asked.IsZero() && s.failed == nil {
			text += " …"
		}
	}
	text = display.Cut(text, max(width-len(clock)-2, 1))
	return text + strings.Repeat(" ", max(width-len(clock)-utf8.RuneCountInString(text), 1)) + clock
}

// lines returns the head and the rows, shortened to width as far as possible.
func (t *top) lines(rows []topRow, width int) []string {
	all := t.table(rows, width)
	name := len(all[0]) - 7
	return all.Lines(width, []int{name + 5, name + 6}, name) // shorten holder and why first
}

// style returns the style of a line. The text of a line says everything that its colour says.
func (t *top) style(of level) tcell.Style {
	style := tcell.StyleDefault
	if of == wrong {
		style = style.Bold(true)
	}
	switch {
	case t.plain:
	case of == wrong:
		style = style.Foreground(tcell.ColorRed)
	case of == doubtful:
		style = style.Foreground(tcell.ColorOlive)
	}
	return style
}

// quits handles a key or a new size of the terminal, and reports whether to quit.
func (t *top) quits(s tcell.Screen, e tcell.Event) bool {
	switch e := e.(type) {
	case *tcell.EventResize:
		s.Sync()
	case *tcell.EventKey:
		_, height := s.Size()
		page := max(height-6, 1)
		switch e.Key() {
		case tcell.KeyCtrlC:
			return true
		case tcell.KeyCtrlL:
			s.Sync()
		case tcell.KeyCtrlZ:
			if s.Suspend() == nil {
				job.StopSelf()
				_ = s.Resume() // if this fails, the next key or signal ends top
			}
		case tcell.KeyUp:
			t.first--
		case tcell.KeyDown:
			t.first++
		case tcell.KeyPgUp:
			t.first -= page
		case tcell.KeyPgDn:
			t.first += page
		case tcell.KeyHome:
			t.first = 0
		case tcell.KeyEnd:
			t.first = len(t.rows(time.Now()))
		case tcell.KeyRune:
			return t.typed(e.Rune())
		}
	}
	return false
}

func (t *top) typed(key rune) (quit bool) {
	for name, o := range orders {
		if o.key == key {
			t.turned = t.order == name && !t.turned
			t.order, t.first = name, 0
		}
	}
	return key == 'q' || key == 'Q'
}
