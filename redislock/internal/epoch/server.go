// SPDX-License-Identifier: Apache-2.0

// Package epoch is a Redis server that may have forgotten leases. Its scripts are bound
// to one run of the server. A record says since when nothing has been forgotten, and
// nothing is granted until that is long enough ago.
//
// The packages that use it bring the scripts for locks.
package epoch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/batch"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Config says what a Server is used for.
type Config struct {
	Addr    string        // of the server, for people
	Owned   bool          // the client is the Server's to close
	Contact *conn.Contact // of the client's Place; nil if it is not known
	ID      string        // of this participant
	Prefix  string        // of all keys
	Layout  *keys.Layout  // says which keys locks have
	Channel string        // with ID, the channel that Listen subscribes to

	Limit     *Limit        // what is known of MaxTTL
	Slots     Slots         // of a master of a cluster; nil for a server on its own
	Timeout   time.Duration // to connect
	Unguarded bool          // a server that cannot be guarded is accepted

	Replicas       int           // how many must have a lease that was granted or renewed
	ReplicaTimeout time.Duration // for that

	// Scripts are known by their index to Run. Without any there is only Send, and
	// nothing is bound to a run then. The Server puts lua/guard.lua before them.
	Scripts []Script
	// Check is a script that returns the names of the commands that the user may
	// not run. It is given two keys and a channel that nobody uses.
	Check string

	// Hear handles a message. It must not block: replies wait behind it. If it is nil,
	// there is no subscription.
	Hear func(from conn.Session, message string)
	// Opened is called when a subscription is open, for the first time or again.
	// Messages that were sent before are lost.
	Opened func(*conn.Subscription)
	// Missed is called when messages may have been lost. It may be nil.
	Missed func(at *conn.Conn)
	// News is called with news of a server: a run is found that grants nothing for a while, or it has not
	// been heard for a second, once a minute while that lasts. It may be nil.
	News func(driver.News)
}

// Script is a script. Its reply is an array that begins with a number, -1 if closed()
// has returned that.
type Script struct {
	Text string
	// Grants says that it may grant something, and so begin an epoch. It returns -5 and the TTL
	// if that is too long.
	Grants bool
	// Renews says that it may give a lease more time.
	Renews bool
	// PerRequest, if positive, says that the script takes many requests at a time, and returns an array
	// of replies. See batch.Script.
	PerRequest int
}

// Leases reports whether the script may grant a lease, or give it more time.
func (s *Script) Leases() bool { return s.Grants || s.Renews }

// Slots is what a master of a cluster has instead of one record: one for each of its hash slots.
type Slots interface {
	// JoinAgain joins the epochs of all slots that were in use when stale was the Binding.
	JoinAgain(ctx context.Context, s *Server, wire rueidis.CommandClient, b, stale *Binding)
	// JoinAll joins the epochs of the slots that b has joined.
	JoinAll(ctx context.Context, s *Server, b *Binding) error
	// SomeKey returns a key in any slot of the master, or "" if it has none.
	SomeKey(s *Server) string
}

// Server is one server, or the one that is the master now.
type Server struct {
	Config
	*conn.Conn
	texts        []string // of the scripts, without the line for the run
	subscription *conn.Subscription

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the listener

	epochKey string // of a server on its own
	requests batch.Requests
	writes   atomic.Bool // it has asked for grants
	astray   astray

	mu      sync.Mutex // guards the fields below
	binding *Binding
	moves   moves

	replicas replicas
	told     struct {
		closed driver.Instant // when it was told last that nothing is granted
		run    string         // in this run
		silent driver.Instant // when it was told last that it does not answer
	}
}

// New returns the Server of a client. It sends nothing; see Bind and Listen.
func New(client rueidis.Client, conf Config) *Server {
	s := &Server{Config: conf, Conn: conn.New(client, conf.Contact), subscription: conn.NewSubscription(conf.Opened), epochKey: conf.Prefix + "epoch"}
	for _, script := range conf.Scripts {
		s.texts = append(s.texts, script.Text)
	}
	s.texts = append(s.texts, epochLua, markLua, conf.Check)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// EpochKey is the key of the record of the epoch of a server on its own.
func (s *Server) EpochKey() string { return s.epochKey }

// Subscription returns the one over which messages to this participant come.
func (s *Server) Subscription() *conn.Subscription { return s.subscription }

// Send sends a command about a key that no script of Config is needed for, and
// returns the answer, which may be nil, and an instant before it was sent.
func (s *Server) Send(ctx context.Context, _ string, cmd func(rueidis.Builder) rueidis.Completed) (rueidis.RedisResult, driver.Instant, *conn.Failure) {
	made, since := s.Made(), driver.Now()
	r := s.Do(ctx, cmd(s.Client.B()))
	switch err := r.Error(); {
	case err == nil:
		s.astray.useful()
	case conn.IsReplica(err) && s.astray.pause(since) == nil:
		s.astray.vain(err)
		s.drop(made) // the next is sent to where the address leads by then
	case conn.IsReplica(err):
		rest(ctx)
	}
	return r, since, Answered(ctx, r)
}

// Answered says what an answer means if it is an error.
func Answered(ctx context.Context, r rueidis.RedisResult) *conn.Failure {
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return conn.Classify(ctx, err)
	}
	return nil
}

// Read sends the commands that cmds makes for each key, which change nothing, and
// returns the replies in the order of keys.
func (s *Server) Read(ctx context.Context, keys []string, cmds func(b rueidis.Builder, key string) []rueidis.Completed) ([][]rueidis.RedisResult, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var all []rueidis.Completed
	each := 0
	for _, key := range keys {
		mine := cmds(s.Client.B(), key)
		each = len(mine)
		all = append(all, mine...)
	}
	got, err := s.DoMulti(ctx, all...)
	if err != nil {
		return nil, err
	}
	replies := make([][]rueidis.RedisResult, len(keys))
	for i := range keys {
		replies[i] = got[i*each : (i+1)*each]
	}
	return replies, nil
}

// Close ends what was begun in the background and, if it is the Server's own, the
// client. The errors of requests that are under way say nothing then: the driver must
// end them before. Call Hush first.
func (s *Server) Close() {
	s.replicas.mu.Lock() // no request begins to wait for replicas after this
	s.cancel()
	s.replicas.mu.Unlock()
	if s.Owned {
		s.Conn.Close()
	}
	s.work.Wait()
	s.replicas.hangUp()
}
