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

// An address may move to another server while old connections stay open: the address of
// a virtual IP, of a proxy, or a name that now resolves to another host. The old server
// may then be a replica, or a master that no other client uses. So if a server refuses a
// request because it is a replica, or because it is not the run of the scripts, the
// client makes a new Binding, over a new connection. If that succeeds, and the server
// refuses the request again, the connection for requests leads to the old server. The
// client drops it, and connects anew to the address.
//
// This does not help if the address always leads to a replica, or to several servers in
// turn. So the client pauses between such attempts, longer and longer.

// astray counts the Bindings that did not help.
type astray struct {
	n atomic.Int64 // in a row

	mu   sync.Mutex     // guards the fields below
	last driver.Instant // when the last of them was made
	err  error          // of the last of them
	ours bool           // this client has dropped a connection, and so has ended the subscription itself
}

const (
	vainFree  = 2                      // how many Bindings in a row may be in vain before a pause
	vainPause = time.Second            // the first pause; each further one is twice as long
	maxVain   = 10 * time.Second       // the longest pause
	vainRest  = 200 * time.Millisecond // delays the error of a request in a pause, as callers may repeat it at once
)

// rest waits for vainRest, or until ctx ends.
func rest(ctx context.Context) {
	select {
	case <-time.After(vainRest):
	case <-ctx.Done():
	}
}

// pause returns the error of the last Binding that did not help, if now is too early for another one.
func (a *astray) pause(now driver.Instant) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.n.Load() - vainFree; n > 0 && now.Sub(a.last) < min(vainPause<<min(n-1, 8), maxVain) {
		return a.err
	}
	return nil
}

// vain records that a Binding did not help.
func (a *astray) vain(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n.Add(1)
	a.last, a.err = driver.Now(), err
}

// useful records that the right run has answered a request.
func (a *astray) useful() {
	if a.n.Load() != 0 {
		a.n.Store(0)
	}
}

// back records that the subscription is open again. If its connection was lost, the client has a new
// connection, so the count starts anew. If this client dropped the connection itself, the
// count goes on.
func (a *astray) back() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ours {
		a.n.Store(0)
	}
	a.ours = false
}

// drop closes the first made connections: all that existed when a request was sent that the
// server has refused. One of them has carried the request.
func (s *Server) drop(made int64) {
	if !s.Ours() || s.Slots != nil {
		return // the connections belong to the caller, or lead to several nodes
	}
	s.astray.mu.Lock()
	s.astray.ours = true
	s.astray.mu.Unlock()
	s.Drop(made)
}

// errForgets also describes an address that leads to two servers: the client cannot tell this from a server that forgets.
var errForgets = errors.New("the server forgets its scripts or its data again and again: is it one server?")

// elsewhere returns nil unless err says that the connection leads to a replica or to another run. Then it returns the
// Failure for the request. If this is not the first such error for the request, elsewhere drops the first made
// connections.
func (s *Server) elsewhere(ctx context.Context, first bool, made int64, err error) *driver.Failure {
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

// leadsElsewhere reports whether err says that the connection leads to a replica, or to a run
// without the scripts.
func leadsElsewhere(err error) bool {
	ret := conn.Refused(err)
	return ret != nil && (ret.IsNoScript() || conn.IsReplica(ret))
}
