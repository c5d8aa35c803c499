// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

// The picture has its own background, so that it looks the same on a light and on a dark
// page.
const (
	width    = 960
	left     = 112 // where time begins
	right    = 24
	top      = 104
	laneHigh = 30
	barHigh  = 18
	lineHigh = 21
	wrapAt   = 118 // characters of a sentence in one line

	ink   = "#1f2933"
	faint = "#7b8794"
	rule  = "#e4e7eb"
	red   = "#c81e1e"
	green = "#0f7b4d"
)

// colours of the clients.
var colours = []string{"#9aa5b1", "#2b6cb0", "#dd6b20", "#6b46c1", "#2c7a7b"}

func colour(client int) string { return colours[client%len(colours)] }

type picture struct {
	strings.Builder
	v *View
	y int
}

// WriteSVG writes the view as a picture to scale.
func (v *View) WriteSVG(w io.Writer) error {
	p := &picture{v: v, y: top}
	p.axis()
	p.holders()
	for i, l := range v.Lanes {
		if i == len(v.Lanes)-1 { // before the tokens, so that these are on top
			p.violations(top, p.y+laneHigh)
		}
		p.lane(l)
	}
	p.numbers()
	p.legend()
	p.story()
	high := p.y + 16
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="13" fill="%s">`+"\n", width, high, width, high, ink)
	fmt.Fprintf(&b, `<title>%s</title>`+"\n", html.EscapeString(v.Title+". "+v.Verdict))
	b.WriteString(`<defs><pattern id="closed" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#f1f3f5"/><line x1="0" y1="0" x2="0" y2="6" stroke="#9aa5b1" stroke-width="2"/></pattern></defs>` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="10" fill="#ffffff" stroke="#cbd2d9"/>`+"\n", width, high)
	shade := green
	if v.Bad {
		shade = red
	}
	fmt.Fprintf(&b, `<text x="24" y="34" font-size="19" font-weight="bold" fill="%s">%s</text>`+"\n", shade, html.EscapeString(v.Verdict))
	fmt.Fprintf(&b, `<text x="24" y="57" font-size="14" fill="%s">%s</text>`+"\n", faint, html.EscapeString(v.Title))
	fmt.Fprintf(&b, `<text x="24" y="76" font-size="12.5" fill="%s">%s</text>`+"\n", faint, html.EscapeString(v.Note))
	b.WriteString(p.String())
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *picture) x(at time.Duration) float64 {
	return left + float64(width-left-right)*float64(at)/float64(p.v.End)
}

func (p *picture) text(x float64, y int, attrs, s string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%d"%s>%s</text>`+"\n", x, y, pad(attrs), html.EscapeString(s))
}

func (p *picture) rect(from, to time.Duration, y, high int, attrs string) {
	fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%.1f" height="%d"%s/>`+"\n", p.x(from), y, max(p.x(to)-p.x(from), 1.5), high, pad(attrs))
}

func pad(attrs string) string {
	if attrs == "" {
		return ""
	}
	return " " + attrs
}

// axis draws the lines of time. Everything else is drawn over them.
func (p *picture) axis() {
	step := time.Millisecond
	for _, factor := range []time.Duration{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000} {
		if p.v.End/step <= 10 {
			break
		}
		step = factor * time.Millisecond
	}
	bottom := top + laneHigh*(1+len(p.v.Lanes))
	for at := time.Duration(0); at <= p.v.End; at += step {
		fmt.Fprintf(p, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", p.x(at), top-4, p.x(at), bottom, rule)
		p.text(p.x(at), top-9, `text-anchor="middle" font-size="11" fill="`+faint+`"`, seconds(at))
	}
}

// holders draws the strip with the number of clients that trust a lease.
func (p *picture) holders() {
	p.text(16, p.y+19, `font-weight="bold"`, "holders")
	for _, s := range p.v.Holders {
		fill, ink := "#f1f3f5", faint
		switch {
		case s.N == 1:
			fill, ink = "#c6e6d5", green
		case s.N > 1:
			fill, ink = red, "#ffffff"
		}
		p.rect(s.From, s.To, p.y+3, 24, `fill="`+fill+`"`)
		if w := p.x(s.To) - p.x(s.From); w > 14 {
			says := fmt.Sprint(s.N)
			if s.N > 1 && w > 70 {
				says += " at once"
			}
			p.text((p.x(s.From)+p.x(s.To))/2, p.y+20, `text-anchor="middle" font-weight="bold" fill="`+ink+`"`, says)
		}
	}
	p.y += laneHigh + 4
}

// violations draws a line through all lanes where a rule is broken.
func (p *picture) violations(from, to int) {
	for _, s := range p.v.Story {
		if s.Bad {
			fmt.Fprintf(p, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="1.5" stroke-dasharray="4 3"/>`+"\n", p.x(s.At), from, p.x(s.At), to, red)
		}
	}
}

// numbers draws the number of each sentence at its time, in as many rows as the numbers
// need.
func (p *picture) numbers() {
	p.y += 6
	p.text(16, p.y+15, `fill="`+faint+`"`, "see below")
	const room = 22
	var ends []float64
	for i, s := range p.v.Story {
		x, row := p.x(s.At), 0
		for row < len(ends) && ends[row] > x-room {
			row++
		}
		if row == len(ends) {
			ends = append(ends, 0)
		}
		ends[row] = x
		fill := "#52606d"
		if s.Bad {
			fill = red
		}
		fmt.Fprintf(p, `<circle cx="%.1f" cy="%d" r="9.5" fill="%s"/>`+"\n", x, p.y+11+row*room, fill)
		p.text(x, p.y+15+row*room, `text-anchor="middle" font-size="11" font-weight="bold" fill="#ffffff"`, fmt.Sprint(i+1))
	}
	p.y += room*max(len(ends), 1) + 10
}

func (p *picture) legend() {
	p.text(16, p.y+12, `font-size="11.5" fill="`+faint+`"`, "A bar in a client's lane: it believes that it alone holds the lock; a dot in it: it writes.  In a node's lane: this server has given it the lock.")
	p.y += 22
	p.text(16, p.y+8, `font-size="11.5" fill="`+faint+`"`, "Resource: what the lock protects, such as a database; the token of each write, ✓ taken, ✗ refused or wrong.  All bars are to scale.")
	p.y += 26
}

func (p *picture) story() {
	for i, s := range p.v.Story {
		attrs := ""
		if s.Bad {
			attrs = `font-weight="bold" fill="` + red + `"`
		}
		p.text(52, p.y+14, `text-anchor="end" font-weight="bold" fill="#52606d"`, fmt.Sprint(i+1))
		p.text(64, p.y+14, `fill="`+faint+`" font-size="11.5"`, seconds(s.At))
		for _, line := range wrap(s.Text, wrapAt) {
			p.text(122, p.y+14, attrs, line)
			p.y += lineHigh
		}
	}
}

// wrap breaks s into lines of n characters at most.
func wrap(s string, n int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len(line)+1+len(word) > n {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
