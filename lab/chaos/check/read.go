// SPDX-License-Identifier: Apache-2.0

// Package check checks the diaries of the workers. It knows what a lock is and what the
// store promises, but not how a store grants leases.
package check

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Claim is a call that asked for a lease, and what happened afterwards. Instants are
// nanoseconds of the boot clock; 0 means that the event did not happen.
type Claim struct {
	Worker string // name of the process
	N      int64
	Name   string
	Kind   string // alone, shared, slots
	Slots  int
	Waits  bool // the call may wait

	Asked   int64
	Granted int64 // after the call returned a lease
	From    int64 // the first instant at which the worker believed in the lease
	To      int64 // the last such instant
	Ended   int64 // the worker saw that the lease had ended, or began to release it
	Done    int64 // after the failed call, or the release, returned
	Token   uint64
	Lease   string
	Lost    string // why the lease ended before its release
	Failed  string // why the call returned no lease
	Back    int64  // the worker believed in the lease again after it had ended
}

// Believed reports whether the worker believed in the lease at any instant.
func (c *Claim) Believed() bool { return c.From != 0 }

func (c *Claim) String() string {
	return fmt.Sprintf("%s#%d %s %s, token %d", c.Worker, c.N, c.Kind, c.Name, c.Token)
}

// Run is the contents of all diaries.
type Run struct {
	Claims  []*Claim
	Refused map[string]int   // errors of opening a client, and how often each happened
	Last    map[string]int64 // the last instant in each diary
}

// Read reads all diaries in a folder: the files NAME.log. A diary ends at an incomplete
// line, which kill -9 or a full disk may leave.
func Read(folder string) (*Run, error) {
	run := &Run{Refused: make(map[string]int), Last: make(map[string]int64)}
	paths, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		err = run.diary(strings.TrimSuffix(filepath.Base(path), ".log"), f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return run, nil
}

func (run *Run) diary(worker string, f *os.File) error {
	claims := make(map[string]*Claim)
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		t, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("no line of a diary: %q", line)
		}
		run.Last[worker] = max(run.Last[worker], t)
		verb, rest, _ := strings.Cut(rest, " ")
		switch verb {
		case "open", "closed":
			continue
		case "refused":
			run.Refused[rest]++
			continue
		}
		n, rest, _ := strings.Cut(rest, " ")
		if verb == "ask" {
			c, err := asked(worker, n, rest)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			c.Asked = t
			claims[n] = c
			run.Claims = append(run.Claims, c)
			continue
		}
		c := claims[n]
		if c == nil {
			return fmt.Errorf("%q: nobody has asked for that", line)
		}
		c.note(t, verb, rest)
	}
}

func asked(worker, n, rest string) (*Claim, error) {
	f := strings.Fields(rest)
	if len(f) != 4 {
		return nil, fmt.Errorf("%d fields", len(f))
	}
	c := &Claim{Worker: worker, Name: f[0], Kind: f[1], Waits: f[3] == "wait"}
	var err error
	if c.N, err = strconv.ParseInt(n, 10, 64); err != nil {
		return nil, err
	}
	c.Slots, err = strconv.Atoi(f[2])
	return c, err
}

func (c *Claim) note(t int64, verb, rest string) {
	switch verb {
	case "grant":
		c.Granted = t
		token, lease, _ := strings.Cut(rest, " ")
		c.Token, _ = strconv.ParseUint(token, 10, 64)
		c.Lease = lease
	case "held":
		if c.Lost != "" {
			c.Back = t
		}
		if c.From == 0 {
			c.From = t
		}
		c.From, c.To = min(c.From, t), max(c.To, t) // several processes may act under one lease
	case "ended":
		c.Ended, c.Lost = t, rest
	case "giving":
		if c.Ended == 0 {
			c.Ended = t
		}
	case "gave":
		c.Done = t
	case "failed":
		c.Done, c.Failed = t, rest
	}
}
