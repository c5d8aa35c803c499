// SPDX-License-Identifier: Apache-2.0

// Package serve shows the locks of stores to browsers and to monitoring. It reads, and
// breaks a lease if it may and somebody asks it to.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
)

// Options say to whom the locks are shown.
type Options struct {
	Token string   // that everybody has to send; empty: nobody has to
	Hosts []string // names, besides localhost and every IP address, by which browsers may call us
	Break bool     // who may see the locks may also break leases

	Certificate *tls.Certificate // nil: nothing is encrypted
}

// A Server has what the stores have told last, and what has happened since it began.
type Server struct {
	hosts map[string]bool
	token [sha256.Size]byte
	open  bool // nobody needs a token
	may   bool // break leases
	cert  *tls.Certificate

	mu       sync.Mutex
	stores   []*shown
	history  *history.History
	watchers map[chan []byte]bool
}

// New returns a Server of sources, which have different names.
func New(sources []*history.Source, opts Options) *Server {
	s := &Server{
		hosts: map[string]bool{"localhost": true}, token: sha256.Sum256([]byte(opts.Token)), open: opts.Token == "", may: opts.Break, cert: opts.Certificate,
		watchers: map[chan []byte]bool{}, history: history.New(history.Bytes),
	}
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

// Run asks the stores and answers at l until ctx ends, and then for no longer than stopping, whatever
// a store does.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var polls sync.WaitGroup
	for i := range s.stores {
		polls.Go(func() { s.poll(ctx, i) })
	}
	err := listen(ctx, l, s.cert, s.handle)
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

// stopping is for how long a store may go on with what it was asked.
const stopping = 3 * time.Second

// everyIdle is how often a store is asked while nobody looks.
const everyIdle = 30 * time.Second

// poll asks the store at index i until ctx ends.
func (s *Server) poll(ctx context.Context, i int) {
	sh := s.stores[i]
	sh.source.Follow(ctx, func(l history.Look) { s.take(i, l) }, func(began time.Time) {
		if !s.watched() {
			if !s.may {
				sh.source.Close() // Redis, for one, has a ping a second as long as it is open
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

// refresh waits until each store has been asked within the last second, or does not
// answer for a while.
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
