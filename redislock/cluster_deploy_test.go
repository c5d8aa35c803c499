// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// clusterOwnClient uses clients as rueidis makes them for a cluster.
func clusterOwnClient(t *testing.T, c *testCluster) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.masters[0].Addr}, DisableCache: true})
	must(t, err)
	defer client.Close()
	a, err := New(client, longOptions())
	must(t, err)
	b, err := New(client, longOptions())
	must(t, err)
	clientsWork(t, a, b)
	a.Close()
	b.Close()
	for _, r := range c.masters {
		if out := r.do("pubsub", "channels") + r.do("pubsub", "shardchannels"); out != "" {
			t.Errorf("after Close the channels %q are subscribed to", out)
		}
	}
	if err := client.Do(t.Context(), client.B().Get().Key("x").Build()).Error(); !rueidis.IsRedisNil(err) {
		t.Errorf("Close has closed the caller's client: %v", err)
	}
}

// clusterRights are those that docs/redis-protocol.md adds for a cluster.
var clusterRights = strings.Fields("+cluster|slots +asking +ssubscribe +spublish +pubsub|shardnumsub")

func clusterLeastRights(t *testing.T, c *testCluster) {
	grant := func(rights []string, more ...string) {
		t.Helper()
		args := append([]string{"acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:*", "&pawl:client:*"}, rights...)
		for _, r := range c.masters {
			c.must(r, append(args, more...)...)
		}
	}
	at := "redis://app:s3cret@" + c.masters[0].Addr
	all := append(slices.Clone(leastRights), clusterRights...)
	grant(all)
	works(t, at)
	s := open(t, at, longOptions())
	name := c.nameOn(0, "rights")
	g := take(t, s, long(name))
	c.move(name, c.masters[0], c.masters[1], func() {
		renews(t, g)
	})
	c.bless(longOptions())
	c.move(name, c.masters[1], c.masters[0], nil)
	c.bless(longOptions())
	for _, right := range []string{"+cluster|slots", "+spublish", "+pubsub|shardnumsub"} {
		i := slices.Index(all, right)
		grant(slices.Delete(slices.Clone(all), i, i+1))
		_, err := Open(t.Context(), at, longOptions())
		if err == nil || !strings.Contains(err.Error(), right) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open without the right %s = %v; want an error that names it", right, err)
		}
	}
	grant(all, "-ssubscribe")
	deaf := open(t, at, longOptions())
	take(t, deaf, long("deploy"))
	fails(t, "Acquire without the right +ssubscribe", errorOf(deaf.Acquire(t.Context(), long("deploy"))), nil, "+ssubscribe")
}

// TestClusterEndpoints: nodes are asked where they say that they are, or where the node
// that has named them is if they do not.
func TestClusterEndpoints(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"hostname", "unknown-endpoint"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 0, "--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", kind)
			c.bless(longOptions())
			works(t, c.url())
			s := open(t, c.url(), longOptions())
			name := c.nameOn(0, "moved")
			g := take(t, s, long(name))
			c.move(name, c.masters[0], c.masters[1], func() {
				renews(t, g)
			})
			release(t, g)
		})
	}
}
