// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// An address may come to lead to another server while old connections live on: a
// virtual IP, a proxy, a name that is resolved anew. The old server may be a replica
// then, or a master that no other client uses. So if a refusal says that a connection
// leads to a replica, or to another run than that of the scripts, a new binding
// follows, over a new connection. If that finds a master and the request is refused
// again, the connection of the requests leads elsewhere. It is dropped, and the next
// one is made to where the address leads now.
//
// This does not help if the address leads to a replica for good, or to several servers
// in turn. So it is done less and less often.

// astray counts the bindings that did not help.
type astray struct {
	n atomic.Int64 // bindings in a row

	mu   sync.Mutex     // guards the fields below
	last driver.Instant // when the last one was made
	err  error          // of the last
	ours bool           // this client has dropped a connection, so the end of the subscription says nothing
}

const (
	vainFree  = 2                      // how many bindings may be in vain without a pause
	vainPause = time.Second            // after these; it doubles
	maxVain   = 10 * time.Second       // no pause is longer
	vainRest  = 200 * time.Millisecond // how long a request takes to fail meanwhile, as callers may ask again at once
)

// rest waits for vainRest, or until ctx ends.
func rest(ctx context.Context) {
	select {
	case <-time.After(vainRest):
	case <-ctx.Done():
	}
}

// pause returns the error of the last binding if it is too early for another one.
func (a *astray) pause(now driver.Instant) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.n.Load() - vainFree; n > 0 && now.Sub(a.last) < min(vainPause<<min(n-1, 8), maxVain) {
		return a.err
	}
	return nil
}

// vain records that a binding did not help.
func (a *astray) vain(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n.Add(1)
	a.last, a.err = driver.Now(), err
}

// useful records that a request was answered by the run that it was for.
func (a *astray) useful() {
	if a.n.Load() != 0 {
		a.n.Store(0)
	}
}

// back records that the connection is another one than those that were in vain: the
// subscription has ended and begun again, and not because this client has dropped a
// connection.
func (a *astray) back() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ours {
		a.n.Store(0)
	}
	a.ours = false
}

// drop closes the connections that were made before a request was refused: one of them
// has carried it.
func (s *Server) drop(made int64) {
	if !s.Ours() || s.Slots != nil {
		return // the caller's connections, or those of several nodes
	}
	s.astray.mu.Lock()
	s.astray.ours = true
	s.astray.mu.Unlock()
	s.Drop(made)
}

// errForgets is also for an address that leads to two servers: a client cannot tell them apart.
var errForgets = errors.New("the server forgets its scripts or its data again and again: is it one server?")

// Elsewhere returns what the refusal of a request means which says that the connection leads elsewhere; else nil. If it
// is not the first one, the connections that were made before are dropped.
func (s *Server) Elsewhere(ctx context.Context, first bool, made int64, err error) *conn.Failure {
	switch {
	case !leadsElsewhere(err):
		return nil
	case first:
		return conn.NotBound(ctx, err)
	case !conn.IsReplica(err):
		err = errForgets
	}
	s.astray.vain(err)
	s.drop(made)
	return conn.NotBound(ctx, err)
}

// leadsElsewhere reports whether an error says that a connection leads to no master, or not to the
// run that a script was loaded for.
func leadsElsewhere(err error) bool {
	ret := conn.Refused(err)
	return ret != nil && (ret.IsNoScript() || conn.IsReplica(ret))
}
