// SPDX-License-Identifier: Apache-2.0

// Package arch enforces the direction of imports:
//
//	bench → stores and peers
//	chaos → stores, in its worker alone
//	cmd → sim → stores → fence → pawl → driver → std
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pawl-go/pawl"

// A layer may import the layers before it, and what is listed for it.
var layers = []struct {
	packages []string // below module; "" is package pawl itself
	others   []string // modules of others, besides the standard library
}{
	{packages: []string{"driver"}},
	{packages: []string{"internal/schedule", "internal/line"}}, // of package pawl
	{packages: []string{"internal/trust"}},
	{packages: []string{"internal/nodewire"}},  // of redislock/redlock and the simulator
	{packages: []string{"internal/nodemodel"}}, // a node in memory, for tests and the simulator
	{packages: []string{"internal/participant"}},
	{packages: []string{"internal/client"}},
	{packages: []string{""}},
	{packages: []string{"fence"}},
	{packages: []string{"adapt"}},
	{packages: []string{"metrics"}},
	{packages: []string{"metrics/otelpawl"}, others: []string{"go.opentelemetry.io/otel"}},
	{packages: []string{"metrics/prompawl"}, others: []string{"github.com/prometheus/client_golang/"}},
	{packages: []string{"memlock"}},
	{packages: []string{"filelock"}, others: []string{"golang.org/x/sys"}},
	{packages: []string{"redislock"}, others: []string{"github.com/redis/rueidis"}},
	{packages: []string{"redislock/goredis"}, others: []string{"github.com/redis/go-redis/"}},
	{packages: []string{"zklock"}, others: []string{"github.com/go-zookeeper/zk"}},
	{packages: []string{"etcdlock"}, others: []string{"go.etcd.io/etcd/", "go.uber.org/zap", "google.golang.org/grpc"}},
	{packages: []string{"pglock"}, others: []string{"github.com/jackc/pgx/"}},
	{packages: []string{"lab/proof"}},
	{packages: []string{"lab/sim"}},
	{packages: []string{"lab/adapttest"}}, // tests only, which may import what they are for
	{packages: []string{"driver/drivertest"}},
	{packages: []string{"lab/linear"}, others: []string{"github.com/anishathalye/porcupine"}},
	{packages: []string{"lab/fencetest"}},
	{packages: []string{"cmd"}, others: []string{"golang.org/x/sys", "golang.org/x/term", "golang.org/x/sync/errgroup", "github.com/spf13/", "github.com/gdamore/tcell/"}},
	// Processes that use what is published, servers, and a judge that knows neither.
	{packages: []string{"lab/chaos"}, others: []string{"golang.org/x/sys"}},
	{packages: []string{"lab/count"}},
	{packages: []string{"lab/cutoff"}},
	// Nobody imports it. It knows all stores and their clients, and our peers.
	{packages: []string{"lab/bench"}, others: []string{"golang.org/x/sys", "github.com/redis/", "github.com/go-redsync/redsync/", "github.com/bsm/redislock",
		"github.com/go-zookeeper/zk", "go.etcd.io/etcd/", "go.uber.org/zap", "github.com/jackc/pgx/", "cirello.io/pglock", "github.com/lib/pq"}},
}

// stores may not import one another.
var stores = []string{"memlock", "filelock", "redislock", "zklock", "etcdlock", "pglock"}

// test code may import more.
var testOnly = []string{"driver/drivertest", "driver/drivertest/wiretest", "driver/drivertest/servers", "memlock"}

// checks look at the tree as a whole, or at what users see of package pawl.
var checks = []string{"internal/apitest", "internal/arch", "internal/docs", "internal/guarantees", "internal/mutants", "internal/release", "internal/texts"}

var forbidden = []string{"util", "utils", "common", "helper", "helpers", "misc"}

func TestImportsFollowTheArrows(t *testing.T) {
	for _, f := range goFiles(t) {
		test := strings.HasSuffix(f.path, "_test.go")
		from := layerOf(f.dir)
		if from < 0 {
			if !slices.Contains(checks, f.dir) {
				t.Errorf("%s: the folder %s is in no layer", f.path, f.dir)
			}
			continue
		}
		for _, imp := range f.imports {
			if !strings.HasPrefix(imp, module) {
				first, _, _ := strings.Cut(imp, "/")
				if strings.Contains(first, ".") && !test && !hasPrefix(imp, layers[from].others) {
					t.Errorf("%s imports %s, which this layer may not", f.path, imp)
				}
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
			whole := f.dir == "internal/participant" && to == "" // its histories are those of clients
			if test && (slices.Contains(testOnly, to) || to == f.dir || whole) {
				continue
			}
			if layerOf(to) > from {
				t.Errorf("%s imports %s, against the arrows", f.path, imp)
			}
			if slices.Contains(stores, f.dir) && slices.Contains(stores, to) {
				t.Errorf("%s: the store %s imports the store %s", f.path, f.dir, to)
			}
			starts := strings.HasPrefix(f.dir, "lab/") && to == "driver/drivertest/servers"
			if f.dir == "driver/drivertest/servers" && !test {
				t.Errorf("%s imports %s: servers knows nothing of ours", f.path, imp)
			}
			if !test && !starts && f.dir != "lab/linear" && strings.HasPrefix(to, "driver/drivertest") && !strings.HasPrefix(f.dir, "driver/drivertest") {
				t.Errorf("%s imports the test suite outside a test", f.path)
			}
			if i := strings.Index(to, "internal/"); i >= 0 && !strings.HasPrefix(f.dir+"/", to[:i]) {
				t.Errorf("%s imports %s of another module", f.path, imp)
			}
		}
	}
}

// What chaos finds must not depend on what the code under test believes: its worker
// uses the API, and the rest nothing of ours but servers, which imports nothing of ours.
func TestChaosSharesNothing(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.dir != "lab/chaos" && !strings.HasPrefix(f.dir, "lab/chaos/") {
			continue
		}
		for _, imp := range f.imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case !ours && imp != module, strings.HasPrefix(to, "lab/chaos/"), to == "driver/drivertest/servers":
			case f.dir == "lab/chaos/worker" && !strings.HasPrefix(to, "driver"):
			default:
				t.Errorf("%s imports %s", f.path, imp)
			}
		}
	}
}

func TestNoPackageIsADrawer(t *testing.T) {
	for _, f := range goFiles(t) {
		if slices.Contains(forbidden, path.Base(f.dir)) || slices.Contains(forbidden, f.pkg) {
			t.Errorf("%s: name a package after what it does", f.path)
		}
	}
}

func TestRootModuleStaysLight(t *testing.T) {
	for _, m := range []struct {
		file    string
		allowed []string
	}{
		{"go.mod", []string{"golang.org/x/sys"}},
		{"cmd/pawl/go.mod", nil},
	} {
		data, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(strings.TrimPrefix(line, "require "))
			if strings.HasPrefix(line, "replace") {
				t.Errorf("%s has a replace line; go.work finds our modules", m.file)
			}
			fields := strings.Fields(line)
			if m.allowed != nil && len(fields) >= 2 && strings.HasPrefix(fields[1], "v") && !slices.Contains(m.allowed, fields[0]) {
				t.Errorf("%s requires %s", m.file, fields[0])
			}
		}
	}
}

// Whoever looks a package up finds a program that uses it. Packages of modules that are not
// published, those with nothing to import and examples need none.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	with, public := map[string]bool{}, map[string]bool{}
	for _, f := range goFiles(t) {
		if strings.HasPrefix(f.dir, "lab/") || f.pkg == "main" || strings.Contains("/"+f.dir+"/", "/internal/") || strings.Contains(f.dir, "/examples/") {
			continue
		}
		if !strings.HasSuffix(f.path, "_test.go") {
			public[f.dir] = true
		} else if text, err := os.ReadFile(filepath.Join(root, f.path)); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(text), "\nfunc Example") {
			with[f.dir] = true
		}
	}
	if len(public) < 15 {
		t.Errorf("%d public packages: looked in the wrong place?", len(public))
	}
	for dir := range public {
		if !with[dir] {
			t.Errorf("%s/%s: no example: write func Example in a file example_test.go", module, dir)
		}
	}
}

const root = "../.."

type goFile struct {
	path, dir, pkg string
	imports        []string
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := goFile{path: rel, dir: strings.TrimPrefix(path.Dir(rel), "."), pkg: parsed.Name.Name}
		for _, imp := range parsed.Imports {
			s, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, s)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d files: looked in the wrong place?", len(files))
	}
	return files
}

// layerOf returns the layer of a folder: that of the longest matching entry.
func layerOf(dir string) int {
	best, length := -1, -1
	for i, l := range layers {
		for _, p := range l.packages {
			in := dir == p || p != "" && strings.HasPrefix(dir, p+"/")
			if in && len(p) > length {
				best, length = i, len(p)
			}
		}
	}
	return best
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
