// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// TestBreakFailure: the operator learns whether the lease is there still, and what ends it.
func TestBreakFailure(t *testing.T) {
	u, err := stores.Parse("file:///d")
	if err != nil {
		t.Fatal(err)
	}
	s := &stores.Store{URL: u, Flag: " -s file:///d"}
	b := &breakArgs{name: "deploy", lease: "l1", wait: time.Minute}
	held := func(h pawl.Held) error {
		return &pawl.HeldError{Info: &pawl.Info{Name: "deploy", Holders: []pawl.Held{h}}}
	}
	tx := &pawl.Transaction{}
	for _, c := range []struct {
		err  error
		code int
		says []string
	}{
		{pawl.ErrReleased, exit.Nobody, []string{`nobody holds "deploy"`, "pawl ls -s file:///d"}},
		{held(pawl.Held{Lease: "l2"}), exit.Busy, []string{"that lease does not hold the lock", "pawl show deploy -s file:///d"}},
		{held(pawl.Held{Lease: "l1", Transaction: tx}), exit.Busy, []string{"an open transaction that it guards keeps the name", tx.End()}},
		{held(pawl.Held{Lease: "l2", Transaction: tx}), exit.Busy, []string{"that lease does not hold the lock"}},
		{&pawl.Error{Op: "break", Name: "deploy", Err: fmt.Errorf("pid 7 is stopped: %w", context.DeadlineExceeded)}, exit.Busy,
			[]string{`"deploy" was not released within 1m0s: pid 7 is stopped; the holder has been asked and may still release it`}},
		{context.DeadlineExceeded, exit.Busy, []string{`"deploy" was not released within 1m0s; the holder`}},
		{fmt.Errorf("%w: reset", pawl.ErrUnavailable), exit.Unavailable, []string{"reset"}},
	} {
		f := exit.As(b.failure(s, c.err))
		for _, want := range c.says {
			if f.Code != c.code || !strings.Contains(f.Error(), want) {
				t.Errorf("%v: exit %d, %q; want exit %d and %q", c.err, f.Code, f.Error(), c.code, want)
			}
		}
	}
}

// TestNodesFailure: only a store that does not answer is worth another try.
func TestNodesFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{fmt.Errorf("pawl: %w: by alice", redlock.ErrOtherChange), exit.Config, "by alice"},
		{fmt.Errorf("%w: reset", pawl.ErrUnavailable), exit.Unavailable, "reset; check --store, which is redlock://a,b,c"},
		{errors.New("pawl: name these as the old ones"), exit.Config, "name these as the old ones; see pawl nodes, and pawl nodes change --help"},
	} {
		if f := exit.As(nodesFailure(c.err, "redlock://a,b,c")); f.Code != c.code || !strings.HasSuffix(f.Error(), c.says) {
			t.Errorf("%v: exit %d, %q; want exit %d and %q", c.err, f.Code, f.Error(), c.code, c.says)
		}
	}
	if err := nodesFailure(nil, ""); err != nil {
		t.Error(err)
	}
}

// TestNodeServes: of a node the operator is told what keeps it from serving, before what it would serve.
func TestNodeServes(t *testing.T) {
	for _, c := range []struct {
		node nodeJSON
		want string
	}{
		{nodeJSON{Set: "2:a,b,c"}, "2:a,b,c"},
		{nodeJSON{Set: "2:a,b,c", Changing: "to a,b,d by alice"}, "nothing: the nodes are being changed to a,b,d by alice"},
		{nodeJSON{Set: "2:a,b,c", Changing: "to a,b,d", Error: "refused"}, "refused"},
		{nodeJSON{}, ""},
	} {
		if got := why(c.node); got != c.want {
			t.Errorf("%+v serves %q, want %q", c.node, got, c.want)
		}
	}
}
