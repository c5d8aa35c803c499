// SPDX-License-Identifier: Apache-2.0

//go:build linux

package serve

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/memlock"
)

// crowd is holders and waiters on one store in memory.
type crowd struct {
	*testing.T
	store memlock.Store
}

// client returns a new client with its own host.
func (c *crowd) client(host string) *pawl.Client {
	c.Helper()
	l, err := c.store.Open(&pawl.Options{Holder: pawl.Holder{User: "ci", Host: host, PID: 812, Command: "deploy"}})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { l.Close() })
	return l
}

func (c *crowd) hold(host, name, why string, opts ...pawl.Option) *pawl.Lease {
	c.Helper()
	lease, err := c.client(host).Acquire(c.Context(), name, append(opts, pawl.Why(why), pawl.TTL(time.Minute))...)
	if err != nil {
		c.Fatal(err)
	}
	return lease
}

// wait waits for name until the test ends.
func (c *crowd) wait(host, name, why string) {
	l := c.client(host)
	go func() { _, _ = l.Acquire(c.Context(), name, pawl.Why(why)) }()
}

// waiting waits until so many wait for name.
func (c *crowd) waiting(name string, n int) {
	c.Helper()
	l := c.client("")
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		info, err := l.Inspect(c.Context(), name)
		if err != nil {
			c.Fatal(err)
		}
		if len(info.Waiters) == n {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("%d wait for %s; want %d", len(info.Waiters), name, n)
		}
	}
}

// served serves the crowd and returns the address of the page.
func (c *crowd) served(opts Options) string {
	c.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	s := New([]*history.Source{{Name: "mem:", Open: func() (*pawl.Client, error) { return c.store.Open(nil) }}}, opts)
	running(c.T, func(ctx context.Context) error { return s.Run(ctx, l) })
	return "http://" + l.Addr().String() + "/"
}

const (
	script   = "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\">"
	override = "a\u202etxet\u202cb"
	control  = "c\x01\x1b[2J\u2028d\u200e"
)

// TestPage: the page shows what is held, as text whatever it is, and what changes; in a
// real browser, with nothing on its console.
func TestPage(t *testing.T) {
	needBrowser(t)
	c := &crowd{T: t}
	for i := range 9 {
		c.hold(fmt.Sprintf("ci-%d", i%4), fmt.Sprintf("batch/%d", i), "nightly")
	}
	c.hold("ci-1", script, script)
	c.hold("ci-2", override, control)
	c.hold("ci-3", "readers", "report", pawl.Shared())
	c.hold("ci-4", "readers", "report", pawl.Shared())
	held, flapping := c.hold("ci-7", "deploy", "release 7"), c.hold("ci-6", "flapping", "")
	c.wait("ci-8", "deploy", "release 8")
	c.waiting("deploy", 1)
	c.wait("ci-9", "deploy", "release 9")
	p := browse(t, c.served(Options{}))
	p.look(1280, 900, "light")
	names := `[...document.querySelectorAll('#rows th')].map((e) => e.textContent)`
	p.until(`document.querySelectorAll('#rows tr').length`, "14")
	p.until(names+`[0]`, "deploy") // it is waited for
	p.until(names+`.includes(`+quote(script)+`)`, "true")
	p.until(names+`.includes('a\uFFFDtxet\uFFFDb')`, "true")
	p.until(`[...document.querySelectorAll('#rows td:nth-child(4)')].some((e) => e.textContent === 'c\uFFFD\uFFFD[2J\uFFFDd\uFFFD')`, "true")
	p.until(`document.title + document.querySelectorAll('#rows img, #rows script').length`, "Locks · pawl0")
	p.until(`document.querySelector('#rows td:nth-child(7)').textContent`, "2")

	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := flapping.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := p.until(`document.querySelector('#rows td:nth-child(2)').textContent.includes('ci@ci-8')`, "true")
	t.Logf("shown %v after the lease was released", took)

	// By keyboard: sort, open a name, close it.
	p.eval(`document.querySelector('#columns button').focus()`)
	p.key("Enter", 13)
	p.until(`document.querySelector('#columns th').ariaSort`, "ascending")
	p.eval(`[...document.querySelectorAll('#rows button')].find((b) => b.textContent === 'deploy').focus()`)
	p.key("Enter", 13)
	p.until(`document.activeElement.id + document.getElementById('detail-name').textContent`, "detaildeploy")
	p.until(`[...document.querySelectorAll('#spans tr')].some((r) => r.textContent.includes('waited, and got it'))`, "true")
	p.shoot("detail", false)
	p.key("Escape", 27)
	p.until(`document.activeElement.textContent`, "deploy")
	p.until(`document.getElementById('past').textContent`, "flapping")

	p.eval(`document.getElementById('filter').value = 'ci-4 report'; document.getElementById('filter').dispatchEvent(new Event('input'))`)
	p.until(names+`.join()`, "readers")
	p.eval(`document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))`)
	p.eval(`document.getElementById('span').value = '2'; document.getElementById('span').dispatchEvent(new Event('change'))`)
	p.shoot("light", false)
	p.look(1280, 900, "dark")
	p.eval(`new Promise((done) => setTimeout(done, 300))`)
	p.shoot("dark", false)
	p.look(390, 844, "light")
	p.eval(`new Promise((done) => setTimeout(done, 300))`)
	p.until(`document.documentElement.scrollWidth <= 390`, "true")
	p.shoot("phone", true)
	if said := p.said(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// TestPageAsksForTheToken: and shows nothing without it.
func TestPageAsksForTheToken(t *testing.T) {
	needBrowser(t)
	c := &crowd{T: t}
	c.hold("ci-1", "deploy", "")
	p := browse(t, c.served(Options{Token: "correct horse battery"}))
	for _, token := range []string{"wrong", "correct horse battery"} {
		p.until(`document.activeElement.id + document.querySelectorAll('#rows tr').length`, "token0")
		p.eval(`document.getElementById('token').value = ` + quote(token))
		p.key("Enter", 13)
		p.until(`document.getElementById('status').textContent + document.getElementById('entry').hidden`,
			map[bool]string{true: "Another token is needed.false", false: "Livetrue"}[token == "wrong"])
	}
	p.until(`document.querySelector('#rows th').textContent`, "deploy")
	p.call("Page.reload", nil, nil)
	p.until(`document.querySelector('#rows th')?.textContent`, "deploy")
	for _, said := range p.said() {
		if !strings.Contains(said, "401") { // which the browser itself tells
			t.Errorf("the console says %s", said)
		}
	}
}

// TestPageBreaks: a lease is broken after its name was typed and a reason given; and no
// other that has come since.
func TestPageBreaks(t *testing.T) {
	needBrowser(t)
	c := &crowd{T: t}
	first := c.hold("ci-1", "deploy", "release 7")
	p := browse(t, c.served(Options{Break: true}))
	p.until(`document.querySelector('#rows th')?.textContent`, "deploy")
	p.eval(`document.querySelector('#rows button').click()`)
	p.until(`document.getElementById('break-lease').value`, first.ID())
	fill := func(why, name string) {
		p.eval(fmt.Sprintf(`document.getElementById('break-why').value = %q; document.getElementById('break-name').value = %q; document.querySelector('#break button').click()`, why, name))
	}
	fill("it hangs", "deplox")
	p.until(`document.getElementById('broken').textContent`, "That is another name.")
	if first.Err() != nil {
		t.Fatal("it was broken without its name")
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := c.hold("ci-2", "deploy", "release 8")
	p.until(`[...document.getElementById('break-lease').options].map((o) => o.value).join()`, second.ID())
	fill("it hangs", "deploy")
	p.until(`document.getElementById('break-lease').value + document.getElementById('break').checkValidity()`, "false")
	if second.Err() != nil {
		t.Fatal("another lease was broken than the one that was looked at")
	}
	p.eval(`document.getElementById('break-lease').selectedIndex = 0`)
	fill("it hangs", "deploy")
	p.until(`document.getElementById('broken').textContent`, "Broken.")
	p.until(`document.getElementById('detail-now').textContent.includes('Nobody holds it.')`, "true")
	if err := second.Err(); err == nil || !strings.Contains(err.Error(), "it hangs") {
		t.Errorf("the holder is told %v", err)
	}
	p.until(`document.getElementById('counts').textContent`, "0 names, 0 waiters")
	p.shoot("break", false)
	if said := p.said(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// TestPageOfAThousand: of a thousand locks the page shows so many that a browser can draw them.
func TestPageOfAThousand(t *testing.T) {
	needBrowser(t)
	var story []part
	for i := range 1000 {
		name := fmt.Sprintf("job/%04d", i)
		story = append(story, part{name: name, host: "ci-1", from: 9, token: 1}, part{name: name, host: "ci-2", from: 5})
	}
	s := New([]*history.Source{{Name: "mem:"}}, Options{})
	s.take(0, history.Look{At: time.Now(), Infos: then(story, time.Now(), 0)})
	p := browse(t, toldPage(t, s))
	p.until(`document.getElementById('counts').textContent`, "1000 names, 1000 waiters")
	p.until(`document.querySelectorAll('#rows tr').length`, "500")
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// TestPageDeadlock: what waiters hold is drawn, hostile names as text, and a deadlock in red.
func TestPageDeadlock(t *testing.T) {
	needBrowser(t)
	c := &crowd{T: t}
	clients := [2]*pawl.Client{c.client("ci-1"), c.client("ci-2")}
	entangle(t, clients, [2]string{script, "ledger"})
	lease := c.hold("ci-3", override, "")
	other := c.client("ci-3")
	go func() {
		_, _ = other.Acquire(t.Context(), "ledger", pawl.Holding(override, lease.ID()), pawl.WaitInDeadlock())
	}()
	c.waiting("ledger", 2)
	p := browse(t, c.served(Options{}))
	p.look(1280, 900, "light")
	p.until(`document.querySelectorAll('#waits li').length`, "3")
	p.until(`document.querySelectorAll('#waits li.bad').length + ' ' + document.querySelectorAll('#graph > path.dead').length`, "2 2")
	p.until(`document.querySelectorAll('#graph > path').length + ' ' + document.querySelectorAll('#graph > g').length`, "3 3")
	p.until(`document.getElementById('deadlock').textContent.startsWith('Deadlock: 2 waiters wait for each other')`, "true")
	p.until(`[...document.querySelectorAll('#graph title')].map((e) => e.textContent).includes(`+quote(script)+`)`, "true")
	p.until(`document.title + document.querySelectorAll('#waiting img, #waiting script').length`, "Locks · pawl0")
	p.shoot("deadlock", false)
	p.look(390, 844, "dark")
	p.eval(`new Promise((done) => setTimeout(done, 300))`)
	p.until(`document.documentElement.scrollWidth <= 390`, "true")
	p.shoot("deadlock-phone", false)
	if said := p.said(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
