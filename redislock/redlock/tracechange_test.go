// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/proof"
	"github.com/pawl-go/pawl/internal/steps"
)

// traced has servers write down what they record, and what they decide. When the test ends that is held against
// the formulas.
func (f fleet) traced(t testing.TB) *tracer {
	tr := &tracer{fleet: f}
	tr.Nodes = len(f)
	var work sync.WaitGroup
	last := rand.Text()
	for node, s := range f {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		if _, err := io.WriteString(c, "MONITOR\r\n"); err != nil {
			t.Fatal(err)
		}
		if ok, err := in.ReadString('\n'); err != nil || ok != "+OK\r\n" {
			t.Fatal(ok, err)
		}
		work.Go(func() {
			defer c.Close()
			for {
				line, err := in.ReadString('\n')
				if err != nil || strings.Contains(line, last) {
					return
				}
				if r, ok := recordOf(line); ok {
					r.Node = node
					tr.mu.Lock()
					tr.Records = append(tr.Records, r)
					tr.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(func() {
		for node, s := range f {
			if c, err := net.Dial("tcp", s.Addr); err == nil {
				fmt.Fprintf(c, "ECHO %s\r\n", last)
				bufio.NewReader(c).ReadString('\n')
				c.Close()
			}
			s.kill()
			tr.read(t, node)
		}
		work.Wait()
		n, wrong := tr.CheckDecisions(formulas(t, "decide"))
		for _, err := range wrong {
			t.Error(err)
		}
		if wrong == nil && n < 3*3 {
			t.Errorf("%d steps by which generations are decided were looked at", n)
		}
	})
	return tr
}

// recordOf reads a line of MONITOR: the time, who it was, and the words of a command, quoted.
func recordOf(line string) (r steps.Recorded, ok bool) {
	at, command, ok := strings.Cut(line, ` "SET" "pawl:epoch" `)
	if !ok {
		return r, false
	}
	at, _, _ = strings.Cut(strings.TrimPrefix(at, "+"), " ")
	r.At, _ = strconv.ParseInt(strings.ReplaceAll(at, ".", ""), 10, 64)
	text, err := strconv.QuotedPrefix(command)
	if err == nil {
		r.Text, err = strconv.Unquote(text)
	}
	return r, err == nil && strings.Contains(r.Text, ";")
}

func formulas(t testing.TB, name string) *proof.Model {
	t.Helper()
	m, err := proof.Read("../../spec/proof/" + name + ".smt")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// uses is a client of some nodes, whose decisions are written down.
type uses struct {
	tr *tracer
	d  *Driver
	w  steps.Watch
}

func (tr *tracer) client(t testing.TB, url string, opts *Options) *uses {
	u := &uses{tr: tr, d: openDriver(t, url, opts)}
	u.w.Key, u.w.Did = u.d.layout.Lock, tr.did
	return u
}

func (u *uses) take(ctx context.Context) (driver.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*changeTTL)
	defer cancel()
	req := lasting("job", changeTTL)
	g, err := u.d.Acquire(ctx, req)
	return u.w.Granted(req, g, err)
}

// turns has a client take the name n times.
func (u *uses) turns(t testing.TB, n int) {
	t.Helper()
	for range n {
		g, err := u.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Renew(t.Context(), changeTTL); err != nil && !errors.Is(err, driver.ErrDisagree) {
			t.Error(err)
		}
		g.Release(t.Context())
	}
}

// TestStepsOfAChange: each step of nodes and clients while one of three nodes is replaced is one of the formulas of spec/proof. Clients
// that have the nodes of before are there until they are refused.
func TestStepsOfAChange(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(changeTTL)
	var f fleet
	for range 4 {
		f = append(f, startServer(t))
	}
	tr := f.traced(t)
	t.Cleanup(func() { // before the servers are killed
		for node := range f {
			tr.read(t, node)
		}
		n, wrong := tr.Check(formulas(t, "redlock"), formulas(t, "nodes"))
		for _, err := range wrong {
			t.Error(err)
		}
		if wrong == nil && (n < 100 || len(tr.Records) < 4*3) {
			t.Errorf("%d steps were looked at, and %d records", n, len(tr.Records))
		}
		tr.Calls = nil
	})
	opts.scripts = tracedScripts()
	f[:3].bless(t, opts)
	from, to := f[:3].url(), fleet{f[0], f[1], f[3]}.url()
	old := tr.client(t, from, opts)
	old.turns(t, 3)
	step, err := ChangeNodes(t.Context(), from, to, opts)
	if err != nil {
		t.Fatal(err)
	}
	between := *opts
	between.Quorum = step.Quorum
	both := tr.client(t, f.url(), &between)
	for range 3 {
		both.turns(t, 1)
		old.turns(t, 1)
	}
	g, err := old.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error)
	go func() { // a client that was forgotten
		for {
			if _, err := g.Renew(t.Context(), changeTTL); err != nil {
				refused <- err
				return
			}
		}
	}()
	if _, err = ChangeNodes(t.Context(), from, to, opts); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, driver.ErrDisagree) {
		t.Errorf("Renew of a client of the old nodes = %v; want ErrDisagree", err)
	}
	g.Release(t.Context())
	last := tr.client(t, to, opts)
	for range 3 {
		both.turns(t, 1)
		last.turns(t, 1)
	}
	if step, err = ChangeNodes(t.Context(), from, to, opts); err != nil || !step.Last {
		t.Fatalf("the third step is %+v, %v", step, err)
	}
	last.turns(t, 3)
}
