// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// bar is one line of a chart.
type bar struct {
	label string
	value float64
	text  string
	kind  kind
}

// chart returns a picture of a workload's cells, if it compares several.
func (r *report) chart(s section) (svg string, ok bool) {
	m := r.by[s.id]
	what, show := "acquisitions a second: more is better", number
	if m == byTime {
		what, show = "median time: less is better", period
	}
	var bars []bar
	for _, c := range r.cells {
		if c.workload != s.id || c.err() != "" {
			continue
		}
		if v := c.median(m.of); v > 0 {
			bars = append(bars, bar{c.contender, v, show(v), c.kind})
		}
	}
	if len(bars) < 2 {
		return "", false
	}
	return draw(s.id+": "+s.title, what, bars), true
}

const (
	barLeft   = 230 // where bars begin
	barWidth  = 400 // of the longest
	barHeight = 16
	barStep   = 24
	barTop    = 62
)

// draw draws horizontal bars. If one is more than thirty times as long as another,
// their lengths are logarithms, which the picture then says.
func draw(title, what string, bars []bar) string {
	low, high := math.Inf(1), 0.0
	for _, b := range bars {
		low, high = min(low, b.value), max(high, b.value)
	}
	length := func(v float64) float64 { return v / high }
	if high > 30*low {
		what += "; each step of the scale is ten times the one before"
		from := math.Floor(math.Log10(low)) - 0.5
		length = func(v float64) float64 { return (math.Log10(v) - from) / (math.Log10(high) - from) }
	}
	height := barTop + len(bars)*barStep + 10
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" width="720" height="%d" role="img" aria-label="%s">`+"\n",
		height, height, html.EscapeString(title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="page" width="720" height="%d"/>`+"\n", height)
	fmt.Fprintf(&b, `<text class="title" x="16" y="26">%s</text>`+"\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<text class="what" x="16" y="46">%s</text>`+"\n", html.EscapeString(what))
	if high > 30*low {
		for e := math.Ceil(math.Log10(low)); e <= math.Log10(high); e++ {
			x := barLeft + barWidth*length(math.Pow(10, e))
			fmt.Fprintf(&b, `<line class="rule" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", x, x, barTop-6, height-8)
		}
	}
	for i, one := range bars {
		y := barTop + i*barStep
		w := max(barWidth*length(one.value), 2)
		fmt.Fprintf(&b, `<text class="label" x="%d" y="%d">%s</text>`, barLeft-8, y+12, html.EscapeString(one.label))
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, [...]string{"peer", "ours", "floor"}[one.kind], barLeft, y, w, barHeight)
		fmt.Fprintf(&b, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n", barLeft+w+6, y+12, html.EscapeString(one.text))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// The colours can be told apart with any kind of sight, on light and on dark.
const style = `<style>
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 14px; font-weight: 600 }
  .what { fill: #57606a }
  .label { text-anchor: end }
  .page { fill: #ffffff }
  .ours { fill: #0969da }
  .peer { fill: #afb8c1 }
  .floor { fill: none; stroke: #57606a; stroke-dasharray: 3 2 }
  .rule { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .what { fill: #9da7b3 }
    .page { fill: #0d1117 }
    .ours { fill: #58a6ff }
    .peer { fill: #59636e }
    .floor { stroke: #9da7b3 }
    .rule { stroke: #30363d }
  }
</style>
`
