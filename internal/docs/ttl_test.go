// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestAdvisedTTLs: where the page advises a TTL that stores refuse by default, it says so. The page has every
// store.
func TestAdvisedTTLs(t *testing.T) {
	page, err := os.ReadFile("../../docs/choosing-a-ttl.md")
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]time.Duration{"s": time.Second, "min": time.Minute}
	advice, n := regexp.MustCompile(`TTL, such as (\d+) (s|min)\b`), 0
	for row := range strings.Lines(string(page)) {
		for _, m := range advice.FindAllStringSubmatch(row, -1) {
			d, _ := strconv.Atoi(m[1])
			if n++; time.Duration(d)*unit[m[2]] > pawl.DefaultTTL && !strings.Contains(row, "MaxTTL") {
				t.Errorf("stores with a MaxTTL of %v refuse what is advised: %s", pawl.DefaultTTL, row)
			}
		}
	}
	if n < 2 {
		t.Errorf("%d TTLs are advised: has the page other words?", n)
	}
	_, stores, _ := strings.Cut(string(page), "## What the stores make of it")
	for _, store := range []string{"directory", "Redis", "redlock", "ZooKeeper", "etcd", "PostgreSQL"} {
		if !strings.Contains(stores, store) {
			t.Errorf("the page does not say what becomes of a TTL on %s", store)
		}
	}
}
