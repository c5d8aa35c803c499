// SPDX-License-Identifier: Apache-2.0

//go:build linux

package serve

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// part is a lease or a wait in a story, in seconds before its end; to is 0 if it goes on.
type part struct {
	name, user, host, command, why string
	from, to                       int
	token                          pawl.Token // 0: it is a wait
	shared                         bool
	slots                          int
	renewed                        int // when it was renewed for the last time; 0: it goes on
}

// TestPageDraws: a story of two minutes, in which a lock is handed on, one expires, one is
// stuck, one flaps, some are held together, and a store begins in quarantine. It is the
// picture in docs/serve.md.
func TestPageDraws(t *testing.T) {
	needBrowser(t)
	story := []part{
		{name: "deploy/web", user: "ci", host: "ci-7", command: "make deploy", why: "release 7", from: 112, to: 64, token: 41},
		{name: "deploy/web", user: "ci", host: "ci-8", command: "make deploy", why: "release 8", from: 90, to: 64},
		{name: "deploy/web", user: "ci", host: "ci-8", command: "make deploy", why: "release 8", from: 64, to: 22, token: 42},
		{name: "deploy/web", user: "ci", host: "ci-9", command: "make deploy", why: "release 9", from: 80, to: 22},
		{name: "deploy/web", user: "ci", host: "ci-9", command: "make deploy", why: "release 9", from: 22, token: 43},
		{name: "deploy/web", user: "ci", host: "ci-3", command: "make deploy", why: "release 10", from: 12},
		{name: "backup/db", user: "root", host: "db-1", command: "restic backup", why: "nightly", from: 106, to: 20, token: 9, renewed: 50},
		{name: "backup/db", user: "root", host: "db-2", command: "restic backup", why: "nightly", from: 60, to: 20},
		{name: "backup/db", user: "root", host: "db-2", command: "restic backup", why: "nightly", from: 20, token: 10},
		{name: "ledger/close", user: "alice", host: "laptop", command: "psql", why: "fixing March by hand", from: 273000, token: 3},
		{name: "ledger/close", user: "app", host: "app-1", command: "closer", from: 5000},
		{name: "ledger/close", user: "app", host: "app-2", command: "closer", from: 4000},
		{name: "reports", user: "app", host: "app-1", command: "report", from: 100, to: 30, token: 5, shared: true},
		{name: "reports", user: "app", host: "app-2", command: "report", from: 80, to: 10, token: 6, shared: true},
		{name: "reports", user: "app", host: "app-3", command: "report", from: 70, token: 7, shared: true},
		{name: "gpu", user: "ml", host: "train-1", command: "train", why: "run 118", from: 118, token: 20, slots: 3},
		{name: "gpu", user: "ml", host: "train-2", command: "train", why: "run 119", from: 50, token: 21, slots: 3},
		{name: "import/feed", user: "app", host: "app-4", command: "feed", from: 35, token: 2, renewed: 19},
	}
	for i := range 9 {
		story = append(story, part{name: "rotate", user: "root", host: []string{"web-1", "web-2"}[i%2], command: "logrotate",
			from: 112 - 12*i, to: 112 - 12*i - 5, token: pawl.Token(100 + i)})
	}
	const older, newer = "etcd://etcd-1:2379", "redis://cache:6379"
	s := New([]*history.Source{{Name: older}, {Name: newer}}, Options{})
	now := time.Now()
	for ago := 115; ago >= 0; ago-- {
		at := now.Add(-time.Duration(ago) * time.Second)
		s.take(0, history.Look{At: at, Took: 4 * time.Millisecond, Infos: then(story[:9], now, ago)})
		a := history.Look{At: at, Took: time.Millisecond, Infos: then(story[9:], now, ago), State: &report.State{MaxTTL: "30s"}}
		if ago > 85 {
			a.State = report.StateOf(&pawl.StoreInfo{Closed: time.Duration(ago-85) * time.Second, Why: "the server has just started"})
		}
		s.take(1, a)
	}

	p := browse(t, toldPage(t, s))
	p.look(1200, 1060, "light")
	p.until(`document.querySelectorAll('#rows tr').length`, "6")
	p.until(`document.getElementById('past').textContent`, "rotate")
	p.until(`[...document.querySelectorAll('#rows tr.overdue th')].map((e) => e.textContent).join()`, "import/feed")
	p.eval(`document.getElementById('span').value = '2'; document.getElementById('span').dispatchEvent(new Event('change'))`)
	// No host has a colour like those of the legend that mean trouble.
	p.until(`import('./timeline.js').then(({ hue }) => Array.from({ length: 5000 }, (_, i) => hue('host-' + i)).filter((h) => h < 120 || h > 300).length)`, "0")
	p.until(`document.getElementById('longest').textContent.includes('app@app-1') && document.querySelector('#longest button').textContent`, "ledger/close")
	p.shoot("serve", false)
	p.look(1200, 1060, "dark")
	p.eval(`new Promise((done) => setTimeout(done, 300))`)
	p.shoot("serve-dark", false)
	p.look(390, 844, "light")
	p.eval(`new Promise((done) => setTimeout(done, 300))`)
	p.shoot("serve-phone", false)
	if said := p.said(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// then returns what a store tells so many seconds before now.
func then(story []part, now time.Time, ago int) (infos []*pawl.Info) {
	names := map[string]*pawl.Info{}
	for _, p := range story {
		if ago > p.from || ago <= p.to && p.to > 0 {
			continue
		}
		info := names[p.name]
		if info == nil {
			info = &pawl.Info{Name: p.name}
			names[p.name], infos = info, append(infos, info)
		}
		who := pawl.Holder{User: p.user, Host: p.host, PID: 800 + int(p.host[len(p.host)-1]), Command: p.command}
		began := now.Add(-time.Duration(p.from) * time.Second)
		if p.token == 0 {
			info.Waiters = append(info.Waiters, pawl.Waiter{Holder: who, Why: p.why, Since: began})
			continue
		}
		renewed := now.Add(-time.Duration(max(p.renewed, ago-ago%10)) * time.Second)
		info.Token = max(info.Token, p.token)
		info.Holders = append(info.Holders, pawl.Held{Holder: who, Lease: p.host, Token: p.token, Why: p.why,
			Acquired: began, Expires: renewed.Add(30 * time.Second), Shared: p.shared, Slots: p.slots})
	}
	return infos
}
