// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"time"
)

func (p *picture) lane(l Lane) {
	y := p.y + (laneHigh-barHigh)/2
	p.text(16, p.y+20, "", l.Name)
	fmt.Fprintf(p, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s"/>`+"\n", left, y+barHigh/2, width-right, y+barHigh/2, "#cbd2d9")
	for _, kind := range []string{Apart, Waits, IsQuiet, Has, IsDown, Trusts, Pauses} { // the most important bars last, on top
		for _, s := range l.Spans {
			if s.Kind == kind {
				p.span(l, s, y)
			}
		}
	}
	for _, m := range l.Marks {
		p.mark(l, m, y)
	}
	p.y += laneHigh
}

func (p *picture) span(l Lane, s Span, y int) {
	wide := p.x(s.To) - p.x(s.From)
	says, ink := s.Text, "#ffffff"
	if s.Kind == Has || s.Kind == IsQuiet {
		p.rect(s.From, s.To, y, barHigh, `fill="#ffffff"`)
	}
	switch s.Kind {
	case Waits:
		fmt.Fprintf(p, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="3" stroke-dasharray="2 4"/>`+"\n", p.x(s.From), y+barHigh/2, p.x(s.To), y+barHigh/2, colour(s.N))
		says, ink = "waits", colour(s.N)
		if wide > 60 {
			fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="44" height="%d" fill="#ffffff"/>`+"\n", p.x(s.From)+wide/2-22, y, barHigh)
		}
	case Trusts:
		p.rect(s.From, s.To, y, barHigh, `rx="3" fill="`+colour(s.N)+`"`)
		// At the left, because a pause may hide the rest.
		if wide := p.x(min(s.To, p.paused(s.N, s.From))) - p.x(s.From); wide > 180 {
			p.text(p.x(s.From)+8, y+13, `font-size="11.5" fill="#ffffff"`, "holds the lock, "+s.Text)
		} else if wide > 70 {
			p.text(p.x(s.From)+8, y+13, `font-size="11.5" fill="#ffffff"`, s.Text)
		}
		return
	case Has:
		p.rect(s.From, s.To, y, barHigh, `rx="3" fill="`+colour(s.N)+`" fill-opacity="0.35"`)
		says, ink = fmt.Sprintf("client %d", s.N), ""
	case IsDown:
		p.rect(s.From, s.To, y, barHigh, `fill="`+"#3e4c59"+`"`)
		says = cmp.Or(says, "down")
	case IsQuiet:
		p.rect(s.From, s.To, y, barHigh, `fill="url(#closed)"`)
		says, ink = "grants nothing yet", ""
		if wide > 150 {
			fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="132" height="%d" rx="3" fill="#ffffff"/>`+"\n", p.x(s.From)+wide/2-66, y+1, barHigh-2)
		} else {
			says = ""
		}
	case Pauses:
		p.rect(s.From, s.To, y+3, barHigh-6, `fill="#f0b429" stroke="#ffffff"`)
		says, ink = "paused", "#1f2933"
	case Apart:
		fmt.Fprintf(p, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="2" stroke-dasharray="7 5"/>`+"\n", p.x(s.From), y+barHigh+2, p.x(s.To), y+barHigh+2, colour(s.N))
		if free := p.free(l, s.From); p.x(free)-p.x(s.From) > 190 {
			p.text(p.x(s.From)+4, y+12, `font-size="11.5" fill="`+colour(s.N)+`"`, fmt.Sprintf("client %d cannot reach it", s.N))
		}
		return
	}
	if ink == "" {
		ink = "#323f4b"
	}
	if wide > 8*float64(len(says)) && says != "" {
		p.text((p.x(s.From)+p.x(s.To))/2, y+13, `text-anchor="middle" font-size="11.5" fill="`+ink+`"`, says)
	}
}

// free returns when the next bar of a lane begins; from if a bar is there already.
func (p *picture) free(l Lane, from time.Duration) time.Duration {
	free := p.v.End
	for _, s := range l.Spans {
		if s.Kind != Apart && s.To > from {
			free = min(free, max(s.From, from))
		}
	}
	return free
}

// paused returns when the next pause of a client begins.
func (p *picture) paused(client int, from time.Duration) time.Duration {
	next := p.v.End
	for _, s := range p.v.Lanes[client-1].Spans {
		if s.Kind == Pauses && s.To > from {
			next = min(next, s.From)
		}
	}
	return next
}

// mark draws an instant: a write, a clock that is set.
func (p *picture) mark(l Lane, m Mark, y int) {
	x := p.x(m.At)
	switch {
	case l.Name != ResourceLane && m.Bad:
		fmt.Fprintf(p, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="3"/>`+"\n", x, y-3, x, y+barHigh+3, red)
		p.text(x+5, y+13, `font-size="11.5" fill="`+red+`" font-weight="bold"`, m.Text)
	case l.Name != ResourceLane:
		fmt.Fprintf(p, `<circle cx="%.1f" cy="%d" r="3.5" fill="#ffffff" stroke="%s" stroke-width="1.5"/>`+"\n", x, y+barHigh, colour(m.N))
	default:
		shade, sign := colour(m.N), "✓"
		if m.Bad {
			shade, sign = red, "✗"
		}
		wide := 24 + 8*len(m.Text)
		fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%d" height="%d" rx="9" fill="#ffffff" stroke="%s" stroke-width="2"/>`+"\n", x-float64(wide)/2, y-1, wide, barHigh+2, shade)
		p.text(x, y+13, `text-anchor="middle" font-size="11.5" font-weight="bold" fill="`+shade+`"`, m.Text+" "+sign)
	}
}
