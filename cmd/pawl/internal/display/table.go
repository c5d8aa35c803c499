// SPDX-License-Identifier: Apache-2.0

package display

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Table is lines of cells. The first line is the head.
type Table [][]string

const (
	CellGap   = 2
	CellLeast = 12 // what is left of a cell that is shortened
)

// Print prints the table. With a width it shortens cells so that the table fits: those in columns first, the
// longest before others, then those in last.
func (t Table) Print(w io.Writer, width int, columns []int, last int) error {
	if width > 0 {
		t.Fit(width, columns)
		t.Fit(width, []int{last})
	}
	tw := tabwriter.NewWriter(w, 0, 0, CellGap, ' ', 0)
	for _, line := range t {
		fmt.Fprintln(tw, strings.Join(line, "\t"))
	}
	return tw.Flush()
}

// SizeOf returns how many columns and rows w has, or 0 if it is no terminal.
func SizeOf(w io.Writer) (columns, rows int) {
	if f, ok := w.(*os.File); ok {
		return terminalSize(f)
	}
	return 0, 0
}

// Fit shortens cells of some columns so that no line is longer than width, if it can.
func (t Table) Fit(width int, columns []int) {
	widths := make([]int, len(t[0]))
	total := CellGap * (len(widths) - 1)
	for i := range widths {
		for _, line := range t {
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		total += widths[i]
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
