// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

const (
	// freed begins the message that a lock has ended; its key follows. lostLease
	// begins the message that a lease was broken; it follows, and the news.
	freed     = "free "
	lostLease = "lost "

	// listeners are remembered for rememberFor after the last has come, and come
	// again every comeAgain.
	rememberFor = 5 * time.Minute
	comeAgain   = time.Minute
)

// ears is who listens to what at one server, which knows the clients that listen
// to a name and sends each a message on the client's own channel.
type ears struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	tell    func(lease, news string) // nil if nobody wants to know
	hearers map[string]*hearer       // by name
}

// hearer is all who listen to a name. It is among the server's listeners, or on
// its way there, until it is removed from ears.
type hearer struct {
	wakes map[int]func()
	next  int
	again chan struct{} // has room for one; say again that we listen
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
		h.retell() // so that wake is called when it is certain that it hears
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

// attend keeps this client among those who listen to name as long as somebody
// does.
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
			// Whoever begins to listen now does so after this, or is told again
			// because it was not heard: both come in one connection's order.
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

// tell tells the server whether this client listens to name.
func (n *redisNode) tell(name string, on bool) error {
	ctx, cancel := context.WithTimeout(n.ears.ctx, time.Second)
	defer cancel()
	_, _, err := n.run(ctx, listenScript, []string{n.key(name) + listenersSuffix},
		[]string{n.server.ID, epoch.Bit(on), epoch.Millis(rememberFor)})
	return err
}

// call wakes all who listen.
func (h *hearer) call(e *ears) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, wake := range h.wakes {
		wake()
	}
}

// hear acts on a message.
func (n *redisNode) hear(_ conn.Session, message string) {
	n.ears.mu.Lock()
	tell := n.ears.tell
	var h *hearer
	if key, ended := strings.CutPrefix(message, freed); ended {
		if name, ok := keys.Name(n.server.Prefix, key); ok {
			h = n.ears.hearers[name]
		}
	}
	n.ears.mu.Unlock()
	if h != nil {
		h.call(&n.ears)
	}
	if rest, ok := strings.CutPrefix(message, lostLease); ok && tell != nil {
		lease, news, _ := strings.Cut(rest, " ")
		tell(lease, news)
	}
}

// Tell implements Teller.
func (n *redisNode) Tell(f func(lease, news string)) {
	n.ears.mu.Lock()
	defer n.ears.mu.Unlock()
	n.ears.tell = f
}

// heard is called when messages can be heard again: those that were sent meanwhile
// are lost, and the server may have forgotten who listens.
func (n *redisNode) heard(*conn.Subscription) {
	n.ears.mu.Lock()
	defer n.ears.mu.Unlock()
	for _, h := range n.ears.hearers {
		h.retell()
	}
}
