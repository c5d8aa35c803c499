// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStructsShowTheirFields: pkg.go.dev shows the fields of a type, but not those of an alias.
func TestStructsShowTheirFields(t *testing.T) {
	export, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	open := func(string) (io.ReadCloser, error) { return os.Open(strings.TrimSpace(string(export))) }
	pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", open).Import(module)
	if err != nil {
		t.Fatal(err)
	}
	structs := 0
	for _, name := range pkg.Scope().Names() {
		obj, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || !obj.Exported() {
			continue
		}
		if _, ok := obj.Type().Underlying().(*types.Struct); ok {
			structs++
			if obj.IsAlias() {
				t.Errorf("%s is an alias of %v: declare its fields in package pawl", name, types.Unalias(obj.Type()))
			}
		}
	}
	if structs < 10 {
		t.Errorf("found %d structs in package pawl", structs)
	}
}
