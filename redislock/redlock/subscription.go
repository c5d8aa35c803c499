// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const (
	// freed begins the message that a lock has ended, which goes on with its key.
	// lostLease begins the message that a lease was broken, which goes on with the
	// lease and the news.
	freed     = "free "
	lostLease = "lost "
	// yourTurn begins the message to a waiter in the queue, which goes on with the lease, its
	// token or 0, the number of its place, and the run of the server, or - if that is not known.
	yourTurn = "turn "

	// The server remembers listeners for rememberFor after the last has come. They come
	// again every comeAgain.
	rememberFor = 5 * time.Minute
	comeAgain   = time.Minute
)

// ears are the subscriptions to names at one server. The server knows the clients that
// listen to a name and sends each a message on the client's own channel.
type ears struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	tell    func(nodewire.Message) // nil if Tell was not called
	hearers map[string]*hearer     // by name
}

// hearer is all listeners to a name in this client. It is registered at the server, or
// about to be, until it is removed from ears.
type hearer struct {
	wakes map[int]func()
	next  int
	again chan struct{} // has room for one; register again at the server
}

// Listen implements Node.
func (n *redisNode) Listen(name string, wake func()) (stop func()) {
	e := &n.ears
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.hearers[name]
	if h == nil {
		h = &hearer{wakes: make(map[int]func()), again: make(chan struct{}, 1)}
		e.hearers[name] = h
		if e.ctx.Err() == nil {
			e.work.Go(func() { n.attend(name, h) })
		}
	} else {
		h.retell() // so that wake is called when the registration is certain
	}
	h.next++
	id := h.next
	h.wakes[id] = wake
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(h.wakes, id); len(h.wakes) == 0 {
			h.retell()
		}
	}
}

func (h *hearer) retell() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// attend keeps this client registered at the server for as long as name has listeners
// here.
func (n *redisNode) attend(name string, h *hearer) {
	e := &n.ears
	for pause := 10 * time.Millisecond; ; {
		listens := n.tell(name, true) == nil
		if listens {
			h.call(e)
			pause = comeAgain
		} else {
			pause = min(2*pause, time.Second)
		}
		select {
		case <-h.again:
		case <-time.After(pause):
		case <-e.ctx.Done():
			return
		}
		if pause == comeAgain {
			pause = 10 * time.Millisecond
		}
		e.mu.Lock()
		last := len(h.wakes) == 0
		if last {
			delete(e.hearers, name)
		}
		e.mu.Unlock()
		if last {
			// A call that begins to listen now registers after this, or the hearer
			// registers again: both requests arrive in the order of one connection.
			_ = n.tell(name, false)
			e.mu.Lock()
			if h := e.hearers[name]; h != nil {
				h.retell()
			}
			e.mu.Unlock()
			return
		}
	}
}

// tell registers this client at the server for name, or ends that.
func (n *redisNode) tell(name string, on bool) error {
	ctx, cancel := context.WithTimeout(n.ears.ctx, time.Second)
	defer cancel()
	_, _, err := n.run(ctx, listenScript, []string{n.layout.Beside(n.key(name)) + listenersSuffix},
		[]string{n.server.ID, epoch.Bit(on), epoch.Millis(rememberFor)})
	return err
}

// call wakes all listeners.
func (h *hearer) call(e *ears) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, wake := range h.wakes {
		wake()
	}
}

// hear handles a message.
func (n *redisNode) hear(_ conn.Session, message string) {
	n.ears.mu.Lock()
	tell := n.ears.tell
	var h *hearer
	if key, ended := strings.CutPrefix(message, freed); ended {
		if name, ok := n.layout.Name(key); ok {
			h = n.ears.hearers[name]
		}
	}
	n.ears.mu.Unlock()
	if h != nil {
		h.call(&n.ears)
	}
	if rest, ok := strings.CutPrefix(message, lostLease); ok && tell != nil {
		lease, news, _ := strings.Cut(rest, " ")
		tell(nodewire.Message{Lease: lease, Broken: true, News: news})
	}
	if rest, ok := strings.CutPrefix(message, yourTurn); ok && tell != nil {
		if f := strings.Fields(rest); len(f) == 4 {
			seq, err := strconv.Atoi(f[2])
			if err == nil {
				tell(nodewire.Message{Lease: f[0], Token: number(f[1]), Seq: seq, Run: strings.TrimPrefix(f[3], "-")})
			}
		}
	}
}

// Tell implements Node.
func (n *redisNode) Tell(f func(nodewire.Message)) {
	n.ears.mu.Lock()
	defer n.ears.mu.Unlock()
	n.ears.tell = f
}

// heard is called when messages can be heard again: those that were sent meanwhile are
// lost, and the server may have forgotten its listeners.
func (n *redisNode) heard(*conn.Subscription) {
	n.ears.mu.Lock()
	for _, h := range n.ears.hearers {
		h.retell()
	}
	tell := n.ears.tell
	n.ears.mu.Unlock()
	if tell != nil {
		tell(nodewire.Message{})
	}
}
