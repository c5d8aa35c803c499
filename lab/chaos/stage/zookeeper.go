// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/link"
)

// zookeeper is an ensemble of three servers, with the classes in $CHAOS_ZOOKEEPER_CLASSPATH or those of Debian. Each server
// has its own link to each other server, and each worker has its own link to each server.
type zookeeper struct {
	Settings
	servers []*zooServer
	between [3]wires // the links of server i to the others
	links   []wires
}

type zooServer struct {
	Process
	addr string
}

const zooTick = 200 * time.Millisecond

func newZooKeeper(s Settings) (Topology, error) {
	t := &zookeeper{Settings: s}
	ports, err := freePorts(9) // for clients, the quorum and elections
	if err != nil {
		return nil, err
	}
	for i := range 3 {
		z := &zooServer{addr: "127.0.0.1:" + ports[i]}
		z.Dir = filepath.Join(s.Dir, fmt.Sprint("zk", i))
		conf := fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"+
			"4lw.commands.whitelist=*\nmaxSessionTimeout=120000\ninitLimit=50\nsyncLimit=25\n", zooTick.Milliseconds(), z.Dir, ports[i])
		for j := range 3 {
			addrs := [2]string{"127.0.0.1:" + ports[3+j], ports[6+j]}
			if j != i { // the port for elections has no link, so no faults
				l, err := link.New(addrs[0])
				if err != nil {
					return nil, err
				}
				t.between[i] = append(t.between[i], l)
				addrs[0] = l.Addr()
			}
			conf += fmt.Sprintf("server.%d=%s:%s\n", j+1, addrs[0], addrs[1])
		}
		if err := z.configure(conf, i+1); err != nil {
			return nil, err
		}
		t.servers = append(t.servers, z)
	}
	if t.links, err = s.eachWorker(t.addrs()...); err != nil {
		return nil, err
	}
	return t, up(t.servers)
}

func (z *zooServer) configure(conf string, id int) error {
	if err := os.MkdirAll(z.Dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(z.Dir, "zoo.cfg"), []byte(conf), 0o600); err != nil {
		return err
	}
	classes := os.Getenv("CHAOS_ZOOKEEPER_CLASSPATH")
	if classes == "" {
		const java = "/usr/share/java/"
		classes = strings.Join([]string{java + "zookeeper.jar", java + "slf4j-simple.jar", java + "netty-codec.jar", java + "netty-resolver.jar"}, ":")
	}
	z.Args = []string{"java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(z.Dir, "zoo.cfg")}
	return os.WriteFile(filepath.Join(z.Dir, "myid"), []byte(fmt.Sprint(id)), 0o600)
}

// word sends a four-letter command and returns the answer.
func (z *zooServer) word(w string) string {
	c, err := net.DialTimeout("tcp", z.addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(c, w)
	b, _ := io.ReadAll(c)
	return string(b)
}

// Up also waits until the server serves.
func (z *zooServer) Up() error {
	if err := z.Start(); err != nil {
		return err
	}
	return await("ZooKeeper at "+z.addr, start, func() error {
		if !z.Runs() {
			return errEnded
		}
		if out := z.word("srvr"); !strings.Contains(out, "Mode:") {
			return fmt.Errorf("it does not serve: %q", out)
		}
		return nil
	})
}

func (t *zookeeper) leader() int {
	for i, z := range t.servers {
		if strings.Contains(z.word("srvr"), "Mode: leader") {
			return i
		}
	}
	return -1
}

func (t *zookeeper) addrs() (all []string) {
	for _, z := range t.servers {
		all = append(all, z.addr)
	}
	return all
}

func (t *zookeeper) URL(worker int) string { return t.url(t.links[worker].addrs()) }
func (t *zookeeper) Direct() string        { return t.url(t.addrs()) }

func (t *zookeeper) url(addrs []string) string {
	return fmt.Sprintf("zk://%s?tick_time=%v", strings.Join(addrs, ","), zooTick)
}

func (t *zookeeper) Guests() []Guest {
	return append(guests(t.Settings, t.Direct(), strings.Replace(t.Direct(), "?", "/elsewhere?", 1)), stranger("zookeeper", t.servers[0].addr))
}

func (t *zookeeper) Promise() Promise {
	return Promise{Shared: true, Slots: true, Tokens: true, Settle: 3*t.TTL + 3*time.Second}
}

func (t *zookeeper) clients() wires { return slices.Concat(t.links...) }
func (t *zookeeper) inner() wires   { return slices.Concat(t.between[:]...) }

func (t *zookeeper) Heal() error {
	t.clients().heal()
	t.inner().heal()
	return up(t.servers)
}

func (t *zookeeper) Stop() {
	t.clients().close()
	t.inner().close()
	killAll(t.servers)
}

func (t *zookeeper) Faults() []Fault {
	leads := func(a *Act, f func(i int) error) error {
		if i := t.leader(); i >= 0 {
			return f(i)
		}
		a.Note("there is no leader")
		return nil
	}
	stop := func(a *Act, i int) error { return freeze(a, 2*a.TTL, t.servers[i]) }
	all := t.clients().faults()
	for _, f := range t.inner().faults() {
		f.Kind = "between servers: " + f.Kind
		all = append(all, f)
	}
	return append(all,
		Fault{Kind: "kill -9 of a server", Weight: 3, Do: func(a *Act) error { return crash(a, t.servers[a.Rand.IntN(3)]) }},
		Fault{Kind: "kill -9 of the leader", Weight: 3, Do: func(a *Act) error {
			return leads(a, func(i int) error { return crash(a, t.servers[i]) })
		}},
		Fault{Kind: "kill -9 of all", Do: func(a *Act) error { return crash(a, t.servers...) }},
		Fault{Kind: "a follower stops and continues", Weight: 2, Do: func(a *Act) error {
			return leads(a, func(i int) error { return stop(a, (i+1+a.Rand.IntN(2))%3) })
		}},
		Fault{Kind: "the leader is cut off from its followers", Weight: 3, Do: func(a *Act) error { return leads(a, func(i int) error { return t.isolate(a, i) }) }},
		Fault{Kind: "the leader stops and continues", Weight: 2, Do: func(a *Act) error {
			return leads(a, func(i int) error { return stop(a, i) })
		}},
		// When the leader goes on, it finds that sessions have ended. It cannot hear from its followers that they
		// have not.
		Fault{Kind: "the leader stops, and continues deaf", Weight: 2, Do: func(a *Act) error {
			return leads(a, func(i int) error {
				t.servers[i].Signal(syscall.SIGSTOP)
				a.Last(a.TTL, 5*a.TTL/2)
				deaf := t.toward(i)[a.Rand.IntN(2):][:1]
				deaf[0].Set(link.Up, link.Fault{Stall: true})
				t.servers[i].Signal(syscall.SIGCONT)
				a.Last(a.TTL/2, 2*a.TTL)
				deaf.heal()
				return nil
			})
		}},
	)
}

// isolate cuts a leader off from its followers: their requests and its answers stall. Clients still reach the
// leader.
func (t *zookeeper) isolate(a *Act, leader int) error {
	hit := t.toward(leader)
	for _, l := range hit {
		l.Set(link.Up, link.Fault{Stall: true})
		l.Set(link.Down, link.Fault{Stall: true})
	}
	a.Last(a.TTL/4, 2*a.TTL)
	hit.heal()
	return nil
}

// toward returns the links of the other servers to a server.
func (t *zookeeper) toward(server int) wires {
	var all wires
	for i := range 3 {
		switch { // between[i] has the links to the other servers, in order
		case i > server:
			all = append(all, t.between[i][server])
		case i < server:
			all = append(all, t.between[i][server-1])
		}
	}
	return all
}
