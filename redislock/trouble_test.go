// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
)

// trouble is a state in which a server refuses what clients ask for.
type trouble struct {
	name      string
	want      string // what the error says
	on, off   func(t *testing.T, r *redis, admin func(string) string)
	nobodyNew bool // clients that connect now are refused too
	renews    bool // requests that need no more memory go on
}

func say(line string) func(*testing.T, *redis, func(string) string) {
	return func(_ *testing.T, _ *redis, admin func(string) string) { admin(line) }
}

var troubles = []trouble{
	{name: "no memory", want: "maxmemory", on: say("config set maxmemory 1"), off: say("config set maxmemory 0"), renews: true},
	{name: "replica", want: "use the address of its master", on: say("replicaof 127.0.0.1 1"), off: masterAgain, nobodyNew: true},
	{name: "replica without a master", want: "this server is a replica", on: loseMaster, off: masterAgain, nobodyNew: true},
	{name: "too few replicas", want: "min-replicas-to-write", on: say("config set min-replicas-to-write 1"), off: say("config set min-replicas-to-write 0")},
	{name: "disk", want: "cannot write to its disk", on: breakDisk, off: say("config set stop-writes-on-bgsave-error no")},
	{name: "slow script", want: "SCRIPT KILL", on: slowScript, off: say("script kill"), nobodyNew: true},
	{name: "too many clients", want: "maxclients", on: tooMany, off: say("config set maxclients 1000"), nobodyNew: true},
}

// loseMaster makes the server a replica that cannot reach its master, and refuses reads too.
func loseMaster(_ *testing.T, _ *redis, admin func(string) string) {
	admin("config set replica-serve-stale-data no")
	admin("replicaof 127.0.0.1 1")
}

// masterAgain also ends the quarantine, which would last for MaxTTL.
func masterAgain(t *testing.T, r *redis, admin func(string) string) {
	admin("replicaof no one")
	bless(t, r.url(), longOptions())
}

// breakDisk makes the server find that it cannot save.
func breakDisk(t *testing.T, r *redis, admin func(string) string) {
	os.RemoveAll(r.Dir)
	admin("config set save 3600 1000000")
	admin("bgsave")
	await(t, "the server can save without its directory", func() bool { return strings.Contains(admin("info persistence"), "rdb_last_bgsave_status:err") })
}

// slowScript runs a slow script of another program.
func slowScript(t *testing.T, r *redis, admin func(string) string) {
	admin("config set busy-reply-threshold 10")
	go r.do("eval", "while true do end", "0")
	await(t, "the script does not run", func() bool { return strings.HasPrefix(admin("get x"), "BUSY") })
}

// tooMany ends all connections while no new ones are let in.
func tooMany(_ *testing.T, _ *redis, admin func(string) string) {
	admin("config set maxclients 1")
	admin("client kill type normal")
	admin("client kill type pubsub")
}

// TestTroubles: a server refuses everything for a while. The error of each request says
// what to do, a lease whose renewal comes in time survives, and a waiter goes on
// waiting.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for _, c := range troubles {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			admin := adminOf(t, r)
			suspect, renewed := make(chan error, 1000), make(chan bool, 1000)
			opts := longOptions()
			opts.TTL = 9 * time.Second
			opts.Observer = pawl.Observer{
				Suspect: func(e pawl.Event) { suspect <- e.Err },
				Renewed: func(pawl.Event) { renewed <- true },
			}
			a := openClient(t, r.url(), opts)
			held := try(t, a, "deploy")
			next := acquiring(t, r, openClient(t, r.url(), longOptions()), 1)
			b := openClient(t, r.url(), longOptions())
			c.on(t, r, admin)
			var err error
			if !eventually(patience, func() bool { // a connection that has just ended tells nothing
				_, err = b.TryAcquire(t.Context(), "other")
				return errors.Is(err, pawl.ErrUnavailable) && strings.Contains(err.Error(), c.want)
			}) {
				t.Errorf("TryAcquire = %v; want ErrUnavailable with %q", err, c.want)
			}
			if c.nobodyNew {
				opts := longOptions()
				opts.ConnectTimeout = time.Second
				fails(t, "Open", errorOf(NewStore(t.Context(), r.url(), opts)), pawl.ErrUnavailable, c.want)
			}
			for len(renewed) > 0 { // before the trouble
				<-renewed
			}
			if !c.renews {
				if err := within(t, "no renewal fails", suspect); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("a renewal failed with %v; want %q", err, c.want)
				}
				c.off(t, r, admin)
			}
			within(t, "the lease is not renewed when the trouble is over", renewed)
			if c.renews {
				c.off(t, r, admin)
			}
			if err := held.Err(); err != nil {
				t.Errorf("the lease has ended: %v", err)
			}
			release(t, held)
			if l := within(t, "the waiter does not get the lock", next); l != nil {
				l.Release(t.Context())
			}
			l, err := b.Acquire(t.Context(), "other")
			must(t, err)
			l.Release(t.Context())
		})
	}
}

// adminOf returns a way to send commands on a connection that lasts. The answer is
// a string or an error's text.
func adminOf(t *testing.T, r *redis) func(line string) string {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.Addr}, DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	must(t, err)
	t.Cleanup(client.Close)
	return func(line string) string {
		words := strings.Fields(line)
		if len(words) > 4 && words[1] == "set" { // a value of several words
			words = append(words[:3:3], strings.Join(words[3:], " "))
		}
		text, err := client.Do(context.Background(), client.B().Arbitrary(words...).Build()).ToString()
		if err != nil {
			return err.Error()
		}
		return text
	}
}

// TestLoading: a server that is loading its data is not taken for one that is down, and
// a waiter gets the lock when it has loaded.
func TestLoading(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--loading-process-events-interval-bytes", "1024")
	opts := testOptions()
	bless(t, r.url(), opts)
	c := openClient(t, r.url(), opts)
	r.do("eval", "for i = 1, 25000 do redis.call('set', i, i) end", "0")
	r.do("save")
	r.Args = append(r.Args, "--key-load-delay", "30") // us
	held := try(t, c, "deploy", pawl.NoRenew())
	waiting := acquiring(t, r, openClient(t, r.url(), testOptions()), 1)
	restarted := make(chan bool)
	go func() { r.restart(); close(restarted) }()
	await(t, "TryAcquire never says that the server is loading", func() bool {
		_, err := c.TryAcquire(t.Context(), "other")
		return errors.Is(err, pawl.ErrUnavailable) && strings.Contains(err.Error(), "is reading its data from disk")
	})
	fails(t, "Open", errorOf(NewStore(t.Context(), r.url(), opts)), nil, "is reading its data from disk")
	late, first := openClient(t, r.url(), testOptions()), make(chan error, 1) // a client whose first connection is refused
	go func() {
		l, err := late.Acquire(t.Context(), "first")
		if err == nil {
			err = l.Release(t.Context())
		}
		first <- err
	}()
	<-restarted
	if err := within(t, "a client that came while the server was loading does not get the lock", first); err != nil {
		t.Errorf("the first Acquire of a client, while the server is loading: %v", err)
	}
	if l := within(t, "the waiter does not get the lock", waiting); l != nil && (held.Err() == nil || l.Token() <= held.Token()) {
		t.Errorf("token %d after %d, of a lease that is %v", l.Token(), held.Token(), held.State())
	}
}
