// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// columns is the width of the lanes on a terminal.
const columns = 64

// WriteText writes the view for a terminal: the verdict, the lanes to scale, and the
// story.
func (v *View) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", v.Verdict)
	column := func(at time.Duration) int {
		return min(int(int64(at)*columns/int64(v.End)), columns-1)
	}
	row := func(name string, fill func(line []rune)) {
		line := []rune(strings.Repeat(" ", columns))
		fill(line)
		fmt.Fprintf(&b, "%-10s|%s|\n", name, strings.TrimRight(string(line), "\n"))
	}
	row("holders", func(line []rune) {
		for _, s := range v.Holders {
			for i := column(s.From); i <= column(s.To); i++ {
				line[i] = max(line[i], rune('0'+s.N)) // a second holder must show, however briefly
			}
		}
	})
	for _, l := range v.Lanes {
		row(l.Name, func(line []rune) {
			for _, s := range l.Spans {
				for i := column(s.From); i <= column(s.To); i++ {
					line[i] = s.rune(line[i])
				}
			}
			for _, m := range l.Marks {
				line[column(m.At)] = m.rune(l.Name)
			}
		})
	}
	fmt.Fprintf(&b, "%10s 0%*s\n\n", "", columns, seconds(v.End))
	b.WriteString("client: = trusts its lease, . asks, z is paused, w writes   node: 1 2 3 who has the lock\n")
	b.WriteString("node: x down, - grants nothing new, ! clock set   resource: 1 2 3 whose write it takes, X refused\n\n")
	for i, s := range v.Story {
		mark := " "
		if s.Bad {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s%3d. %8s  %s\n", mark, i+1, seconds(s.At), s.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rune returns how a span looks in one column that shows old so far.
func (s Span) rune(old rune) rune {
	switch s.Kind {
	case Trusts:
		return '='
	case Waits:
		if old == ' ' {
			return '.'
		}
	case Pauses:
		return 'z'
	case Has:
		return rune('0' + s.N)
	case IsDown:
		return 'x'
	case IsQuiet:
		if old == ' ' {
			return '-'
		}
	}
	return old
}

func (m Mark) rune(lane string) rune {
	switch {
	case lane != ResourceLane && m.Bad:
		return '!'
	case lane != ResourceLane:
		return 'w'
	case m.Bad:
		return 'X'
	}
	return rune('0' + m.N)
}
