// SPDX-License-Identifier: Apache-2.0

package line_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/line"
)

const most = 4

// stage is where a call is.
type stage int

const (
	coming stage = iota
	waiting
	asking
	holding
	gone
)

// world is a line and the calls that go through it, in the order in which they came.
type world struct {
	line   line.Line[int, int]
	calls  [most]call
	n      int
	places [most]*line.Place[int]
}

type call struct {
	kind  line.Kind
	stage stage
}

var errSame = errors.New("nothing has changed")

func (w *world) come(k line.Kind) error {
	if w.n == most {
		return errSame
	}
	c := &w.calls[w.n]
	w.n++
	c.kind = k
	if w.line.Enter(k) {
		c.stage = asking
		return nil
	}
	c.stage = waiting
	w.places[w.n-1] = &line.Place[int]{Of: w.n, Kind: k}
	w.line.Wait(w.places[w.n-1])
	return nil
}

// advance calls those whose turn it is.
func (w *world) advance() error {
	for p := w.line.Next(); p != nil; p = w.line.Next() {
		c := &w.calls[p.Of-1]
		if c.stage != waiting {
			return fmt.Errorf("call %d is called, and does not wait", p.Of)
		}
		c.stage = asking
	}
	return nil
}

// answered is the store's answer to call i. It grants what may be held together.
func (w *world) answered(i int, granted bool) error {
	c := &w.calls[i-1]
	if c.stage != asking {
		return errSame
	}
	for _, other := range w.calls {
		if granted && other.stage == holding && (c.kind != other.kind || c.kind == line.Exclusive) {
			return errSame
		}
	}
	c.stage = gone
	if granted {
		c.stage = holding
		if c.kind == line.Exclusive {
			w.line.Hold(i)
		}
	}
	w.line.Answered()
	return w.advance()
}

func (w *world) release(i int, inherit bool) error {
	c := &w.calls[i-1]
	if c.stage != holding {
		return errSame
	}
	if p := w.line.Heir(i); p != nil && inherit {
		heir := &w.calls[p.Of-1]
		switch {
		case heir.stage != waiting || heir.kind != line.Exclusive || c.kind != line.Exclusive:
			return fmt.Errorf("call %d is heir of %d", p.Of, i)
		case !w.line.Waiting():
			return errors.New("an heir, and nobody waits")
		}
		w.line.Inherit(p, p.Of)
		c.stage, heir.stage = gone, holding
		return w.advance()
	}
	c.stage = gone
	if w.line.Leave(i) != (c.kind == line.Exclusive) {
		return fmt.Errorf("call %d of kind %d leaves the line, or does not", i, c.kind)
	}
	return w.advance()
}

func (w *world) quit(i int) error {
	c := &w.calls[i-1]
	if w.places[i-1] == nil || c.stage == gone {
		return errSame
	}
	want := 0
	for _, other := range w.calls[:i-1] {
		if other.stage == waiting {
			want++
		}
	}
	ahead, ok := w.line.Quit(w.places[i-1], most)
	if ok != (c.stage == waiting) {
		return fmt.Errorf("call %d quits: %v", i, ok)
	}
	if !ok {
		return nil
	}
	if ahead != want {
		return fmt.Errorf("%d are ahead of call %d; want %d", ahead, i, want)
	}
	c.stage = gone
	return w.advance()
}

func (w *world) check() error {
	var first *call
	at, shared, holder := 0, 0, 0
	for i := range w.n {
		switch c := &w.calls[i]; {
		case c.stage == waiting && first == nil:
			first = c
		case c.stage == asking && first != nil && w.places[i] == nil:
			return fmt.Errorf("call %d has overtaken one that waits", i+1)
		case c.stage == asking && first != nil:
			return fmt.Errorf("call %d was called before one that came first", i+1)
		}
		if c := w.calls[i]; c.stage == asking {
			at++
			if c.kind == line.Shared {
				shared++
			}
		} else if c.stage == holding {
			if c.kind == line.Exclusive {
				holder = i + 1
			}
		}
	}
	switch {
	case at > 1 && shared < at:
		return errors.New("at the store are several that cannot be granted together")
	case first != nil && at == 0 && holder == 0:
		return errors.New("one waits, and nobody asks for it")
	case first != nil && at == 0 && first.kind != line.Exclusive:
		return errors.New("one waits at home that is no heir")
	case first != nil && first.kind == line.Shared && shared > 0:
		return errors.New("a reader waits at home while readers ask")
	case w.line.Holder() != holder:
		return fmt.Errorf("the line takes %d for the holder; it is %d", w.line.Holder(), holder)
	case w.line.Over() != (at == 0 && holder == 0):
		return fmt.Errorf("over: %v", w.line.Over())
	case w.line.Quiet(holder) != (at == 0 && first == nil):
		return fmt.Errorf("quiet: %v", w.line.Quiet(holder))
	case w.line.Waiting() != (first != nil):
		return fmt.Errorf("waiting: %v", w.line.Waiting())
	}
	return nil
}

type event struct {
	name string
	do   func(*world) error
}

var events = func() (all []event) {
	for _, k := range []line.Kind{line.Exclusive, line.Shared, 2} {
		all = append(all, event{fmt.Sprintf("call for %d", k), func(w *world) error { return w.come(k) }})
	}
	for i := 1; i <= most; i++ {
		all = append(all,
			event{fmt.Sprintf("%d is granted", i), func(w *world) error { return w.answered(i, true) }},
			event{fmt.Sprintf("%d fails", i), func(w *world) error { return w.answered(i, false) }},
			event{fmt.Sprintf("%d is released", i), func(w *world) error { return w.release(i, false) }},
			event{fmt.Sprintf("%d is handed over", i), func(w *world) error { return w.release(i, true) }},
			event{fmt.Sprintf("%d quits", i), func(w *world) error { return w.quit(i) }})
	}
	return all
}()

// replay does the events of a path in a new world. A line has pointers, so that it cannot
// be copied.
func replay(path []int) (*world, error) {
	w := new(world)
	for i, e := range path {
		err := events[e].do(w)
		if err == errSame && i < len(path)-1 {
			panic("a path through nothing")
		}
		if err != nil {
			return nil, err
		}
	}
	return w, w.check()
}

func walk(path []int, n int) (sequences int, err error) {
	for e := range events {
		path := append(path, e)
		if _, err := replay(path); err == errSame {
			continue
		} else if err != nil {
			names := ""
			for _, e := range path {
				names += events[e].name + ", "
			}
			return 0, fmt.Errorf("%s%w", names, err)
		}
		below := 1
		if n > 1 {
			if below, err = walk(path, n-1); err != nil {
				return 0, err
			}
		}
		sequences += below
	}
	return sequences, nil
}

// Every sequence of calls that come, are answered, hold, hand over and give up keeps the
// order.
func TestEverySequenceOfCalls(t *testing.T) {
	began := time.Now()
	n, err := walk(make([]int, 0, 8), 6)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sequences in %v", n, time.Since(began).Round(time.Millisecond))
	if n < 10_000 {
		t.Errorf("%d sequences: too few to show anything", n)
	}
}
