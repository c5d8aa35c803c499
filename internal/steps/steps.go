// SPDX-License-Identifier: Apache-2.0

// Package steps holds what servers and clients of Redlock have done against the formulas
// of spec/proof: each step has to be one that the formulas have.
//
// The scripts of redlock write each of their steps to the log of the server, in the step itself, and clients
// write down what they rely on and what they let go. All of them run on one machine, so their clocks are one.
package steps

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/internal/proof"
)

//go:embed trace.lua
var traceLua string

// Traced returns a script of redlock, propose or end, in another that writes down each step.
func Traced(name, script string) string {
	return "local traced = '" + name + "'\nlocal function script()\n" + script + "\nend\n" + traceLua
}

// Call is what a script has written about one call.
type Call struct {
	Script  string
	At      int64 `json:",string"` // the server's clock, in microseconds
	Boot    string
	Args    []string
	Answers []int64
	Before  []Name
	After   []Name
	Node    int    `json:"-"`
	Set     string // of propose and end: the nodes of the client, and how many of them are a quorum
	Self    string // of decide: the node
	Said    string // of decide: what the node has said by then
}

// Name is what a node has about a name.
type Name struct {
	Key, Floor string
	Ended      bool // the lease that was asked for is among the ended ones
	Locks      []Lock
}

// Lock is a lock of a node.
type Lock struct {
	Value  string
	Left   int64
	Shared bool
}

// Decision is one of a client, at the time when it took effect.
type Decision struct {
	What    What
	Key, ID string
	At      int64
	Token   uint64
	TTL     int64  // in ms
	Over    int64  // of what was granted or extended: until when it is trusted
	Renewal string // of a renewal: which it is
	begun   int64  // of a renewal
}

// What a client decides. A renewal begins, and extends or fails.
type What string

const (
	Grant  What = "grant"
	Begin  What = "begin"
	Extend What = "extend"
	Fail   What = "fail"
	Share  What = "share"
	LetGo  What = "let go"
)

// Trace is what has happened.
type Trace struct {
	Nodes     int
	Calls     []Call
	Decisions []Decision
	Losses    []Loss
	Records   []Recorded
}

// Loss is that a node has lost all that it had.
type Loss struct {
	Node int
	At   int64
}

// Lines in the log of a server, besides those of the scripts: it starts, or is emptied, at a time.
const (
	mark   = " # traced "
	starts = "# starts "
)

// Starts is a line for the log of a server that is about to start.
func Starts(at int64) string { return fmt.Sprintf("\n%s%d\n", starts, at) }

// Flush is a script that empties a server, and writes that down.
const Flush = `local t = redis.call('TIME')
redis.log(redis.LOG_WARNING, 'traced {"script":"flush","at":"' .. string.format('%.0f', t[1] * 1000000 + t[2]) .. '"}')
return redis.call('FLUSHALL')`

// ReadLog reads what a server has written. Each of its starts but the first is a loss. A line that is not whole
// is of a server that was killed before it had answered, and has kept nothing of that.
func (tr *Trace) ReadLog(node int, r io.Reader) error {
	all := bufio.NewReader(r)
	for begun := false; ; {
		line, err := all.ReadString('\n')
		var at int64
		if _, is := fmt.Sscanf(line, starts+"%d", &at); is == nil {
			if begun {
				tr.Losses = append(tr.Losses, Loss{node, at})
			}
			begun = true
		}
		if _, text, ok := strings.Cut(line, mark); ok {
			c := Call{Node: node}
			switch json.Unmarshal([]byte(text), &c) {
			case nil:
				if c.Script == "flush" {
					tr.Losses = append(tr.Losses, Loss{node, c.At})
				} else {
					tr.Calls = append(tr.Calls, c)
				}
			default:
				if next, _ := all.Peek(len(starts)); len(next) > 0 && string(next) != starts {
					return fmt.Errorf("node %d wrote %s", node, text)
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ReadDecisions reads what a client has written: a decision in each line, the last of which may not be whole.
func (tr *Trace) ReadDecisions(r io.Reader) error {
	all := json.NewDecoder(r)
	for {
		var d Decision
		switch err := all.Decode(&d); err {
		case nil:
			tr.Decisions = append(tr.Decisions, d)
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// Check returns how many steps there are, and for each name the first that the formulas do not have: those of
// redlock.smt and, if that is not nil, of nodes.smt.
func (tr *Trace) Check(m, nodes *proof.Model) (n int, wrong []error) {
	judges := map[string]*judge{}
	for _, c := range tr.Calls {
		if c.Script == "decide" {
			continue
		}
		if c.Boot == "" {
			return 0, []error{fmt.Errorf("a server without a run: %+v", c)}
		}
		for i, b := range c.Before {
			j, err := tr.at(judges, m, nodes, b.Key)
			if err != nil {
				return 0, []error{err}
			}
			last := !slices.ContainsFunc(c.Before[i+1:], func(o Name) bool { return o.Key == b.Key })
			first := !slices.ContainsFunc(c.Before[:i], func(o Name) bool { return o.Key == b.Key })
			if c.Script == "propose" {
				j.clients[c.Args[7+i]] = c.Set
				if c.Answers[i] == 1 {
					j.voted[[2]string{c.Args[7+i], c.Args[7+len(c.Before)+i]}] = true
				}
			}
			j.does(c.At, 1, func() { j.carriedOut(c, i, first, last) })
		}
	}
	for _, d := range tr.decisions() {
		j, err := tr.at(judges, m, nodes, d.Key)
		if err != nil {
			return 0, []error{err}
		}
		j.decides(d)
	}
	for _, j := range judges {
		slices.SortStableFunc(j.steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), a.rank-b.rank) })
		for _, s := range j.steps {
			if j.now = s.at; j.wrong == nil {
				j.pass()
				s.do()
				n++
			}
		}
		if j.wrong != nil {
			wrong = append(wrong, fmt.Errorf("no step of the formulas: %w", j.wrong))
		}
	}
	return n, wrong
}

// decisions returns those of clients, with one for each renewal: whoever was killed in the middle of it has never
// heard how it ended.
func (tr *Trace) decisions() (all []Decision) {
	begun := map[string]int{}
	for _, d := range tr.Decisions {
		switch d.What {
		case Begin:
			begun[d.Renewal] = len(all)
			d.What, d.begun, d.At = Fail, d.At, forEver
		case Extend, Fail:
			d.begun = all[begun[d.Renewal]].begun
			if d.What == Fail {
				d.Over = all[begun[d.Renewal]].Over
			}
			all[begun[d.Renewal]] = d
			continue
		}
		all = append(all, d)
	}
	return all
}
