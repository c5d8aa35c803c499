// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// locker is one participant of a contender. It is safe for concurrent use.
type locker interface {
	// lock waits for name, for as long as it takes or until ctx ends, and returns
	// what gives it back, and the fencing token if there is one.
	lock(ctx context.Context, name string) (unlock func() error, token uint64, err error)
	close()
}

// seat says which of all participants of a cell one is.
type seat struct {
	Index, Total int
}

type contender struct {
	name   string
	kind   kind
	open   func(ctx context.Context, w *world, s seat) (locker, error)
	direct []string                 // commands that it sends to Redis besides scripts
	key    func(name string) string // where Redis has its lock
}

// contenders are all that take part, by name: other processes are told the name.
var contenders = map[string]*contender{}

func enlist(list ...*contender) {
	for _, c := range list {
		contenders[c.name] = c
	}
}

// gaveUp is a locker whose library gives up by itself, which is counted, and the
// wait goes on.
type gaveUp interface{ givenUp() int64 }

// background is for what must be done although the cell is over.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}
