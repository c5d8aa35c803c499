// SPDX-License-Identifier: Apache-2.0

//go:build linux && interop

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// curatorWorker is one process with Curator: key, folder, limit, address. See work.
const curatorWorker = `
import java.nio.file.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

class Worker {
	public static void main(String[] args) throws Exception {
		Path inside = Path.of(args[1], "inside"), file = Path.of(args[1], "count");
		CuratorFramework client = CuratorFrameworkFactory.newClient(args[3], 20_000, 10_000, new RetryOneTime(100));
		client.start();
		InterProcessMutex lock = new InterProcessMutex(client, "/" + args[0]);
		int limit = Integer.parseInt(args[2]), mine = 0;
		for (boolean done = false; !done; mine++) {
			lock.acquire();
			Files.createFile(inside);
			int n = Integer.parseInt(Files.readString(file));
			done = n == limit;
			if (!done) Files.writeString(file, Integer.toString(n + 1));
			Files.delete(inside);
			lock.release();
			Thread.sleep((long) (Math.random() * 8));
		}
		System.out.println(mine - 1);
		client.close();
	}
}
`

// TestCurator: eight processes with Curator and eight with pawl count together. "make interop"
// runs it, with the jars in $PAWL_CURATOR.
func TestCurator(t *testing.T) {
	jars, err := filepath.Glob(filepath.Join(os.Getenv("PAWL_CURATOR"), "curator-*.jar"))
	if err != nil || len(jars) == 0 {
		t.Fatal("there is no Curator in $PAWL_CURATOR: use make interop")
	}
	for _, jar := range []string{"zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-nop", "netty-all"} {
		jars = append(jars, "/usr/share/java/"+jar+".jar")
	}
	file := filepath.Join(t.TempDir(), "Worker.java")
	if err := os.WriteFile(file, []byte(curatorWorker), 0o600); err != nil {
		t.Fatal(err)
	}
	programs["Curator"] = func(*testing.T) []string {
		return []string{"java", "-Xshare:auto", "-cp", strings.Join(jars, ":"), file}
	}
	countTogether(t, 3_000, []string{"Curator", "pawl on ZooKeeper"}, "jobs/count", &world{ZK: servers.StartZooKeeper(t).Addr})
}
