// SPDX-License-Identifier: Apache-2.0

// Package server is one Redis server that keeps leases: the connection to it, the
// scripts that are bound to one run of it, the record that keeps a restart from
// giving leases away, the messages that it sends, and what its errors mean.
//
// What the scripts do with a lock is the business of those who bring them.
package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Config says what a Server is used for.
type Config struct {
	Addr    string   // of the server, for people
	Owned   bool     // the client is the Server's to close
	Contact *Contact // of the client's Place; nil if it is not known
	ID      string   // of this participant
	Prefix  string   // of all keys
	Channel string   // with ID, the channel that Listen subscribes to

	Limit     *Limit        // what is known of MaxTTL
	Group     *Group        // what is known of the nodes of Redlock; else nil
	Node      int           // the number of this one
	Timeout   time.Duration // to connect
	Unguarded bool          // a server that cannot be guarded will do

	Replicas       int           // that must have what RunReplicated writes
	ReplicaTimeout time.Duration // for that

	// Scripts are known by their index to Run. Without any there is only Send, and
	// nothing is bound to a run. The Server puts lua/guard.lua before them.
	Scripts []Script
	// Check is a script that returns the names of the commands that the user may
	// not run. It is given two keys and a channel that nobody uses.
	Check string

	// Hear acts on a message. It must not block: replies wait behind it. If it is
	// nil, nobody listens.
	Hear func(from Subscription, message string)
	// Heard is called when an Ear is open, for the first time or again. Messages
	// that were sent meanwhile are lost.
	Heard func(*Ear)
	// Stepped is called, once a minute at most, when Saw sees that the clock of the
	// server at addr was set: forward, or back if by is negative. It may be nil.
	Stepped func(addr string, by time.Duration)
	// Moved is called when s has come to another run than it was with, or to another server.
	// It may be nil.
	Moved func(s *Server)
	// Closed is called when a run of the server at addr is found that grants nothing
	// for a while. It may be nil.
	Closed func(addr string, left time.Duration)
	// Silent is called when the server at addr has not been heard for a second, and once a
	// minute while that lasts. It may be nil.
	Silent func(addr string, since time.Duration)
}

// Script is a script. Its reply is an array that begins with a number, -1 if closed()
// has returned that.
type Script struct {
	Text string
	// Grants says that it may grant something, and so begin an epoch. It returns -5 and the TTL
	// if that is too long.
	Grants bool
	// Own, if positive, says that the script takes many requests at a time, and returns an array
	// of replies. All of them have the first key in common, and all arguments but the last Own,
	// which are given once. The other keys and arguments are given by their kind: the second key of all
	// requests, the third of all.
	Own int
}

// Server is one server, or that which is the master now.
type Server struct {
	Config
	client  rueidis.Client
	texts   []string // of the scripts, without the line for the run
	ear     *Ear
	cluster *Cluster // that it is a master of; nil if it is a server on its own

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the listener

	epochKey string // of a server on its own
	way      way
	crowds   crowds
	writes   atomic.Bool // something was to be granted
	astray   astray

	mu      sync.Mutex // guards the fields below
	binding *binding
	moves   moves

	replicas replicas
	clock    reading // that the next one is compared with
	told     struct {
		step   driver.Instant // when a step of the server's clock was told last
		closed driver.Instant // when it was told last that nothing is granted
		run    string         // in this run
		silent driver.Instant // when it was told last that it does not answer
	}
}

// New returns the Server of a client. It sends nothing; see Bind and Listen.
func New(client rueidis.Client, conf Config) *Server {
	s := &Server{Config: conf, client: client, ear: newEar(conf.Heard), epochKey: conf.Prefix + "epoch"}
	for _, script := range conf.Scripts {
		s.texts = append(s.texts, script.Text)
	}
	s.texts = append(s.texts, epochLua, markLua, conf.Check)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Servers returns the server.
func (s *Server) Servers(context.Context) ([]*Server, error) { return []*Server{s}, nil }

// Has reports whether a key is in a server that has answered.
func (s *Server) Has(*Server, string) bool { return true }

// Client returns the client, to build commands for Do.
func (s *Server) Client() rueidis.Client { return s.client }

// Send sends a command about a key that no script of Config is needed for, and
// returns the answer, which may be nil, and an instant before it was sent.
func (s *Server) Send(ctx context.Context, _ string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *Failure) {
	made, since := s.made(), driver.Now()
	r := s.Do(ctx, cmd(s.client.B()))
	switch err := r.Error(); {
	case err == nil:
		s.astray.useful()
	case ofReplica(err) && s.astray.pause(since) == nil:
		s.astray.vain(err)
		s.drop(made) // the next is sent to where the address leads by then
	}
	return r, since, answered(ctx, r)
}

// answered says what an answer means if it is an error.
func answered(ctx context.Context, r rueidis.RedisResult) *Failure {
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return classify(ctx, err)
	}
	return nil
}

// Close ends what was begun in the background and, if it is the Server's own, the
// client. The errors of requests that are under way say nothing then: who waits
// for them must be told before. Call Hush first of all.
func (s *Server) Close() {
	s.replicas.mu.Lock() // nobody begins to wait for replicas after this
	s.cancel()
	s.replicas.mu.Unlock()
	if s.Owned {
		if s.Contact != nil {
			s.Contact.GiveUp()
		}
		s.client.Close()
	}
	s.work.Wait()
	s.replicas.hangUp()
}
