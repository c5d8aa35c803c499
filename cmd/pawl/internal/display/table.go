// SPDX-License-Identifier: Apache-2.0

package display

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Table is a table: lines of cells. The first line is the head.
type Table [][]string

const (
	cellGap   = 2
	CellLeast = 12 // the least width to which a cell is shortened
)

// Lines returns the lines of the table. If width is positive, it shortens cells so that the lines fit: first the
// cells in columns, the widest column first, and then the cells in the column last.
func (t Table) Lines(width int, columns []int, last int) (lines []string) {
	if width > 0 {
		t.fit(width, columns)
		t.fit(width, []int{last})
	}
	widths := t.widths()
	for _, cells := range t {
		var b strings.Builder
		for i, cell := range cells {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+cellGap))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// widths returns how wide each column is.
func (t Table) widths() []int {
	widths := make([]int, len(t[0]))
	for _, cells := range t {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Columns returns how many columns w has, or 0 if w is not a terminal.
func Columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, _ := term.GetSize(int(f.Fd())) // 0 with an error
	return columns
}

// fit shortens the cells in columns until no line is longer than width, or until each column has CellLeast
// characters.
func (t Table) fit(width int, columns []int) {
	widths := t.widths()
	total := cellGap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		longest := columns[0]
		for _, c := range columns {
			if widths[c] > widths[longest] {
				longest = c
			}
		}
		if widths[longest] <= CellLeast {
			break
		}
		widths[longest]--
	}
	for _, line := range t {
		for _, c := range columns {
			line[c] = Cut(line[c], widths[c])
		}
	}
}

// Cut shortens s to n characters.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
