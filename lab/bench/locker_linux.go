// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// locker is a client of a contender. It is safe for concurrent use.
type locker interface {
	// lock acquires name, and waits until ctx ends, also if the library stops waiting by itself. It returns a function that releases
	// the lock, and the fencing token, or 0.
	lock(ctx context.Context, name string) (unlock func() error, token uint64, err error)
	close()
}

// seat is the number of a locker among all lockers of a cell.
type seat struct {
	Index, Total int
}

type contender struct {
	name   string
	kind   kind
	open   func(ctx context.Context, w *world, s seat) (locker, error)
	direct []string // commands other than scripts that it sends to Redis

	command func(dir string) []string // of a program, which is not opened
}

// contenders has all contenders by name. Worker processes get the name.
var contenders = map[string]*contender{}

func enlist(list ...*contender) {
	for _, c := range list {
		contenders[c.name] = c
	}
}

// background returns a context for cleaning up after the end of a cell.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}
