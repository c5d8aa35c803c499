// SPDX-License-Identifier: Apache-2.0

// Package serve is "pawl serve", which shows the locks of stores to browsers and to
// monitoring. With Options.Break, its users can also break leases.
package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
)

// Options are the options of a Server.
type Options struct {
	Token string   // requests need this token; empty: they need none
	Hosts []string // host names that requests may use, besides localhost and every IP address
	Break bool     // everybody who may see the locks may also break leases

	Certificate *tls.Certificate // nil: no TLS
}

// A Server has the last answers of the stores, and a history since its start.
type Server struct {
	Options
	hosts map[string]bool

	mu       sync.Mutex
	stores   []*shown
	history  *history.History
	watchers map[chan []byte]bool
}

// New returns a Server that shows sources. Their names must differ.
func New(sources []*history.Source, opts Options) *Server {
	s := &Server{Options: opts, hosts: map[string]bool{"localhost": true}, watchers: map[chan []byte]bool{}, history: history.New(history.Bytes)}
	for _, h := range opts.Hosts {
		s.hosts[hostName(h)] = true
	}
	delete(s.hosts, "")
	for _, source := range sources {
		s.stores = append(s.stores, &shown{Store: history.Store{Name: source.Name}, source: source, texts: map[string]json.RawMessage{},
			wake: make(chan struct{}, 1), answered: make(chan struct{})})
	}
	return s
}

// Run asks the stores and answers requests at l until ctx ends. It then returns after at most stopping,
// even if a store still does not answer.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var polls sync.WaitGroup
	for i := range s.stores {
		polls.Go(func() { s.poll(ctx, i) })
	}
	err := listen(ctx, l, s.Certificate, s.handle)
	cancel()
	ended := make(chan struct{})
	go func() {
		polls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopping):
	}
	return err
}

// stopping is how long Run waits at its end for requests to the stores.
const stopping = 3 * time.Second

// everyIdle is how often a store is asked while nobody looks.
const everyIdle = 30 * time.Second

// poll asks the store at index i until ctx ends.
func (s *Server) poll(ctx context.Context, i int) {
	sh := s.stores[i]
	sh.source.Follow(ctx, func(l history.Look) { s.take(i, l) }, func(began time.Time) {
		if !s.watched() {
			if !s.Break {
				sh.source.Close() // an open client may cost the store work: Redis gets a ping a second
			}
			history.Pause(ctx, everyIdle-time.Since(began), sh.wake)
		}
	})
}

func (s *Server) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers) > 0
}

// refresh waits until each store has been asked within the last second. It gives up after
// 5 seconds.
func (s *Server) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, sh := range s.stores {
		s.mu.Lock()
		fresh, answered := time.Since(sh.tried) < history.Every, sh.answered
		s.mu.Unlock()
		if fresh {
			continue
		}
		wakeUp(sh.wake)
		select {
		case <-answered:
		case <-ctx.Done():
			return
		}
	}
}

func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
