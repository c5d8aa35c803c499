// SPDX-License-Identifier: Apache-2.0

//go:build linux

package serve

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
)

// toldPage serves what stores have told, and nobody asks them. It returns the address of the page.
func toldPage(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	running(t, func(ctx context.Context) error { return listen(ctx, l, nil, s.handle) })
	return "http://" + l.Addr().String() + "/"
}

// TestPageHeat: how many have waited for what in each minute, names that were waited for most
// first, and what is waited for now goes on.
func TestPageHeat(t *testing.T) {
	needBrowser(t)
	story := []part{
		{name: "deploy", user: "ci", host: "ci-1", from: 599, token: 1},
		{name: "deploy", user: "ci", host: "ci-2", from: 480, to: 110},
		{name: "deploy", user: "ci", host: "ci-3", from: 480, to: 110},
		{name: script, user: "ci", host: "ci-1", from: 599, token: 1},
		{name: script, user: "ci", host: "ci-2", from: 400, to: 200},
		{name: "quiet", user: "ci", host: "ci-1", from: 599, token: 1},
		{name: "ledger", user: "ci", host: "ci-1", from: 599, token: 1},
		{name: "ledger", user: "ci", host: "ci-4", from: 30},
	}
	s := New([]*history.Source{{Name: "mem:"}}, Options{})
	now := time.Now()
	for ago := 599; ago >= 0; ago-- {
		s.take(0, history.Look{At: now.Add(-time.Duration(ago) * time.Second), Took: time.Millisecond, Infos: then(story, now, ago)})
	}
	p := browse(t, toldPage(t, s))
	p.look(1280, 900, "light")
	const row = `[...document.querySelectorAll('#heat-rows tr')]`
	p.until(row+`.map((r) => r.querySelector('th').textContent).join('|')`, "deploy|"+script+"|ledger")
	p.until(row+`.slice(0, 2).map((r) => r.lastChild.textContent).join()`, "12m20s,3m20s")
	p.until(row+`.map((r) => r.querySelectorAll('td').length).join()`, "11,11,11") // a minute each, and the sum
	p.until(`document.querySelectorAll('#heat-minutes th').length`, "12")
	p.until(row+`[0].querySelectorAll('td.h2').length >= 5`, "true") // whole minutes of two
	p.until(`[...document.querySelectorAll('#heat td.h2')].filter((e) => e.textContent === '2').length >= 5`, "true")
	p.until(`document.querySelectorAll('#heat img, #heat script').length + document.title`, "0Locks · pawl")
	before := p.eval(row + `[2].lastChild.textContent`)
	p.until(row+`[2].lastChild.textContent !== `+quote(before), "true")
	p.shoot("heat", true)

	p.eval(row + `[0].querySelector('button').focus()`)
	p.key("Enter", 13)
	p.until(`document.getElementById('detail-name').textContent`, "deploy")
	p.key("Escape", 27)
	p.eval(`document.getElementById('filter').value = 'ledg'; document.getElementById('filter').dispatchEvent(new Event('input'))`)
	p.until(row+`.map((r) => r.querySelector('th').textContent).join('|')`, "ledger")
	p.eval(`document.getElementById('filter').value = 'quiet'; document.getElementById('filter').dispatchEvent(new Event('input'))`)
	p.until(`document.getElementById('heat').hidden`, "true")
	p.eval(`document.getElementById('filter').value = ''; document.getElementById('span').value = '720'; document.getElementById('span').dispatchEvent(new Event('change'))`)
	p.until(row+`.map((r) => r.querySelectorAll('td').length).join()`, "61,61,61")
	p.until(`document.getElementById('heat-legend').textContent.includes('in each 12 minutes')`, "true")
	p.look(390, 844, "dark")
	p.eval(`new Promise((done) => setTimeout(done, 300))`)
	p.until(`document.documentElement.scrollWidth <= 390`, "true")
	p.shoot("heat-phone", true)
	if said := p.said(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
