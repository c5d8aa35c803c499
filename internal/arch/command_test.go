// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"slices"
	"strings"
	"testing"
)

// commandLayers are the packages of the command. Each imports only those of layers above it in this list:
// two of the same layer do not know of each other.
var commandLayers = [][]string{
	{"fewfiles", "job", "report"},
	{"display"},
	{"exit", "history"},
	{"nested", "waiting"},
	{"stores"},
	{"cli"},
	{"acquire"},
	{"run", "manual", "show", "top", "doctor", "bench", "admin", "serve"}, // the commands
	{"command"},
	{""}, // main, which has only to call command.Execute
}

func TestCommandFollowsTheArrows(t *testing.T) {
	const folder = "cmd/pawl"
	layer := func(dir string) int {
		name := strings.Trim(strings.TrimPrefix(strings.TrimPrefix(dir, folder), "/internal"), "/")
		return slices.IndexFunc(commandLayers, func(l []string) bool { return slices.Contains(l, name) })
	}
	for _, f := range goFiles(t) {
		if f.dir != folder && !strings.HasPrefix(f.dir, folder+"/") {
			continue
		}
		from := layer(f.dir)
		if from < 0 {
			t.Errorf("%s: the folder is in no layer of the command", f.path)
			continue
		}
		for _, imp := range f.imports {
			to, ours := strings.CutPrefix(imp, module+"/"+folder+"/")
			if ours && !strings.HasSuffix(f.path, "_test.go") && layer(folder+"/"+to) >= from {
				t.Errorf("%s imports %s, against the arrows", f.path, imp)
			}
		}
		if f.dir == folder && !strings.HasSuffix(f.path, "_test.go") && f.path != folder+"/main.go" {
			t.Errorf("%s: what a command does is in %s/internal", f.path, folder)
		}
	}
}
