// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ZooKeeper is a standalone ZooKeeper server, or a member of an ensemble.
type ZooKeeper struct {
	Server
	Java     []string // flags of the virtual machine
	Settings []string // lines of zoo.cfg
	Classes  string   // where Java finds them; NewZooKeeper sets it to those of Debian

	look growing
}

// Jar is the server's archive. Its manifest names most of the archives that it needs; classes names the rest.
const (
	Jar     = "/usr/share/java/zookeeper.jar"
	classes = Jar + ":/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar"
)

// NewZooKeeper returns a server that is not started yet. The settings must include tickTime.
// Settings that begin with -D are flags of Java.
func NewZooKeeper(dir string, settings ...string) *ZooKeeper {
	z := &ZooKeeper{Classes: classes, Java: []string{"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dzookeeper.forceSync=no"}}
	z.Dir, z.often, z.look = dir, 10*time.Millisecond, growing(400*time.Millisecond)
	for _, line := range settings {
		if strings.HasPrefix(line, "-D") {
			z.Java = append(z.Java, line)
		} else {
			z.Settings = append(z.Settings, line)
		}
	}
	z.command = func() (*exec.Cmd, error) {
		config := filepath.Join(z.Dir, "zoo.cfg")
		lines := append([]string{
			"dataDir=" + z.Dir, "clientPort=" + z.port(), "clientPortAddress=127.0.0.1",
			"admin.enableServer=false", "maxClientCnxns=0", "4lw.commands.whitelist=*", "maxSessionTimeout=120000",
		}, z.Settings...)
		if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		args := append(z.Java[:len(z.Java):len(z.Java)], "-cp", z.Classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
		return exec.Command("java", args...), nil
	}
	// A server that is not ready yet may accept a connection and never answer.
	z.serves = func() bool {
		soon := z.look.next()
		return strings.Contains(WordWithin(soon, z.Addr, "srvr"), "Mode:") && strings.Contains(WordWithin(soon, z.Addr, "conf"), z.Dir)
	}
	return z
}

// StartZooKeeper starts a server that ends with the test.
func StartZooKeeper(t T, settings ...string) *ZooKeeper {
	t.Helper()
	z := NewZooKeeper(t.TempDir(), settings...)
	if err := z.Begin(); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(z.End)
	return z
}

// Word sends a four-letter command, such as srvr, and returns the answer.
func (z *ZooKeeper) Word(w string) string { return Word(z.Addr, w) }

// Word is ZooKeeper.Word for the server at addr.
func Word(addr, w string) string { return WordWithin(5*time.Second, addr, w) }

// WordWithin is Word with a limit for the answer of a server that may be stopped.
func WordWithin(limit time.Duration, addr, w string) string {
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	io.WriteString(c, w)
	b, _ := io.ReadAll(c)
	return string(b)
}

// Forget deletes the server's data.
func (z *ZooKeeper) Forget() error { return os.RemoveAll(filepath.Join(z.Dir, "version-2")) }
