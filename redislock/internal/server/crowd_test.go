// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"testing"
)

// TestJoin: requests are in a crowd with their like only, and in one that is not complete.
func TestJoin(t *testing.T) {
	var g crowds
	b, other := &binding{}, &binding{}
	join := func(b *binding, script int, epoch, common, own string) (*crowd, int) {
		return g.join(b, script, 2, []string{epoch, "lock " + own}, []string{common, own, "token " + own})
	}
	c, i := join(b, 0, "epoch", "ttl", "0")
	if i != 0 {
		t.Errorf("the first is number %d", i)
	}
	for _, unlike := range []func() (*crowd, int){
		func() (*crowd, int) { return join(other, 0, "epoch", "ttl", "x") },
		func() (*crowd, int) { return join(b, 1, "epoch", "ttl", "x") },
		func() (*crowd, int) { return join(b, 0, "another epoch", "ttl", "x") },
		func() (*crowd, int) { return join(b, 0, "epoch", "another ttl", "x") },
	} {
		if d, i := unlike(); d == c || i != 0 {
			t.Error("a request is in a crowd of others")
		}
	}
	for n := 1; n < maxCrowd; n++ {
		if d, i := join(b, 0, "epoch", "ttl", fmt.Sprint(n)); d != c || i != n {
			t.Fatalf("request %d is number %d of a crowd; want the same crowd: %v", n, i, d == c)
		}
	}
	if d, i := join(b, 0, "epoch", "ttl", "more"); d == c || i != 0 {
		t.Error("a request joins a crowd that is complete")
	}
	if n := g.gather(c); n != maxCrowd {
		t.Errorf("%d requests are in a crowd that is complete", n)
	}
	if len(c.keys) != 2 || len(c.keys[0]) != 1 || len(c.keys[1]) != maxCrowd || c.keys[1][7] != "lock 7" || c.own[0][7] != "7" || c.own[1][7] != "token 7" || len(c.common) != 1 {
		t.Errorf("the keys are %v, the arguments %v and %v", c.keys, c.common, c.own)
	}
	for n := len(g.open); n < maxOpen; n++ {
		join(b, 0, "epoch", fmt.Sprint("ttl ", n), "")
	}
	if c, _ := join(b, 0, "epoch", "one ttl more", ""); c != nil {
		t.Error("there are more crowds than may be looked through")
	}
}

// TestGather: who comes after a crowd was closed is in another one.
func TestGather(t *testing.T) {
	var g crowds
	c, _ := g.join(nil, 0, 1, []string{"epoch"}, []string{""})
	if n := g.gather(c); n != 1 {
		t.Errorf("%d requests are in the crowd; want 1", n)
	}
	if d, i := g.join(nil, 0, 1, []string{"epoch"}, []string{""}); d == c || i != 0 {
		t.Error("a request joins a crowd that is closed")
	}
}

// TestLeave: a call goes on until the last of its requests was given up.
func TestLeave(t *testing.T) {
	var g crowds
	c, _ := g.join(nil, 0, 1, []string{"epoch"}, []string{""})
	g.join(nil, 0, 1, []string{"epoch"}, []string{""})
	g.leave(c)
	if c.ctx.Err() != nil {
		t.Error("a call ends while somebody waits for it")
	}
	g.leave(c)
	if c.ctx.Err() == nil {
		t.Error("a call goes on that nobody waits for")
	}
}
