// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tree has everything that documentation may name.
type tree struct {
	files   map[string]bool            // files and folders, from the root, with slashes
	pages   map[string]string          // the text of each .md file
	tests   map[string][]string        // names of tests and benchmarks, by folder
	literal map[string]string          // the text of test files, by folder, with _ for spaces: names of subtests
	exports map[string]map[string]bool // exported names, by package
	members map[string]map[string]bool // fields and methods, by the name of the type
	embeds  map[string][]string        // names of the types that a type embeds
	flags   map[string]map[string]bool // flags of pawl, chaos and bench
	verbs   map[string]bool            // commands of pawl
	targets map[string]bool            // targets of make
	source  strings.Builder            // all code and scripts
}

const root = "../.."

var (
	flagCall   = regexp.MustCompile(`(?:\b(?:Duration|Choice)Var|\.(?:Bool|StringArray|String|Duration|Int|Int64|Uint64|Func)?(?:Var)?P?)\((?:[^",]*, ){0,2}"([a-z][a-z-]*)", `)
	verbUse    = regexp.MustCompile(`Use:\s+"([a-z-]+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

var loaded *tree

func load(t *testing.T) *tree {
	t.Helper()
	if loaded != nil {
		return loaded
	}
	tr := &tree{
		files: map[string]bool{}, pages: map[string]string{}, tests: map[string][]string{}, literal: map[string]string{},
		exports: map[string]map[string]bool{}, members: map[string]map[string]bool{}, embeds: map[string][]string{},
		flags:   map[string]map[string]bool{"pawl": {"help": true, "version": true}, "chaos": {}, "bench": {"help": true}},
		verbs:   map[string]bool{"help": true, "completion": true},
		targets: map[string]bool{},
	}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && rel != "." && rel != ".github" {
			return filepath.SkipDir
		}
		tr.files[rel] = true
		if d.IsDir() {
			return nil
		}
		return tr.add(rel)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.pages) < 20 || len(tr.tests) < 10 || len(tr.exports["pawl"]) < 30 || len(tr.flags["pawl"]) < 20 || len(tr.verbs) < 10 || len(tr.targets) < 10 {
		t.Fatalf("found only %d pages, %d folders with tests, %d names of package pawl, %d flags, %d verbs, %d targets of make",
			len(tr.pages), len(tr.tests), len(tr.exports["pawl"]), len(tr.flags["pawl"]), len(tr.verbs), len(tr.targets))
	}
	loaded = tr
	return tr
}

// some reports whether there is a file or folder with the name, or one whose name begins with it, as for
// docs/adr/0011.
func (tr *tree) some(name string) bool {
	if tr.files[name] {
		return true
	}
	for f := range tr.files {
		if strings.HasPrefix(f, name+"-") {
			return true
		}
	}
	return false
}

// add reads one file.
func (tr *tree) add(rel string) error {
	ext := path.Ext(rel)
	if ext != ".md" && ext != ".go" && ext != ".sh" && ext != ".lua" && rel != "Makefile" && path.Base(rel) != "mutants.txt" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(root, rel))
	if err != nil {
		return err
	}
	text := string(data)
	switch {
	case ext == ".md":
		tr.pages[rel] = text
		return nil
	case path.Base(rel) == "mutants.txt":
		tr.literal["internal/mutants"] += strings.ReplaceAll(text, " ", "_")
		return nil
	case rel == "Makefile":
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			tr.targets[m[1]] = true
		}
	case ext == ".go":
		if err := tr.addGo(rel, text); err != nil {
			return err
		}
	}
	if path.Dir(rel) != "internal/docs" { // its samples name things that do not exist
		tr.source.WriteString(text)
	}
	return nil
}

func (tr *tree) addGo(rel, text string) error {
	dir := path.Dir(rel)
	for name, folder := range map[string]string{"pawl": "cmd/pawl", "chaos": "lab/chaos", "bench": "lab/bench"} {
		if dir == folder || folder == "cmd/pawl" && strings.HasPrefix(dir, folder+"/") {
			for _, m := range flagCall.FindAllStringSubmatch(text, -1) {
				tr.flags[name][m[1]] = true
			}
		}
	}
	if dir == "cmd/pawl" || strings.HasPrefix(dir, "cmd/pawl/") {
		for _, m := range verbUse.FindAllStringSubmatch(text, -1) {
			tr.verbs[m[1]] = true
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), rel, text, 0)
	if err != nil {
		return err
	}
	test := strings.HasSuffix(rel, "_test.go")
	if test || dir == "driver/drivertest/wiretest" {
		tr.literal[dir] += strings.ReplaceAll(text, " ", "_")
	}
	for _, d := range file.Decls {
		tr.addDecl(dir, file.Name.Name, d, test)
	}
	return nil
}

// addDecl remembers a declaration that documentation may name.
func (tr *tree) addDecl(dir, pkg string, d ast.Decl, test bool) {
	if f, ok := d.(*ast.FuncDecl); ok && test {
		if f.Recv == nil && regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`).MatchString(f.Name.Name) {
			tr.tests[dir] = append(tr.tests[dir], f.Name.Name)
		}
		return
	}
	if test {
		return
	}
	export := func(name string) { put(tr.exports, pkg, name) }
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			export(d.Name.Name)
		} else if recv := typeName(d.Recv.List[0].Type); recv != "" {
			put(tr.members, recv, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					export(n.Name)
				}
			case *ast.TypeSpec:
				export(s.Name.Name)
				tr.addType(s.Name.Name, s.Type)
			}
		}
	}
}

func (tr *tree) addType(name string, e ast.Expr) {
	var fields *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		fields = e.Fields
	case *ast.InterfaceType:
		fields = e.Methods
	default:
		if of := typeName(e); of != "" {
			tr.embeds[name] = append(tr.embeds[name], of)
		}
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			put(tr.members, name, n.Name)
		}
		if of := typeName(f.Type); f.Names == nil && of != "" {
			tr.embeds[name] = append(tr.embeds[name], of)
		}
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}

func put(m map[string]map[string]bool, key, value string) {
	if m[key] == nil {
		m[key] = map[string]bool{}
	}
	m[key][value] = true
}

// hasMember reports whether a type of that name, in any package, has the member.
func (tr *tree) hasMember(typ, member string) bool {
	seen := map[string]bool{}
	var look func(string) bool
	look = func(typ string) bool {
		if seen[typ] {
			return false
		}
		seen[typ] = true
		if tr.members[typ][member] {
			return true
		}
		for _, of := range tr.embeds[typ] {
			if look(of) {
				return true
			}
		}
		return false
	}
	return look(typ)
}

// exported reports whether any package exports the name, or any type has such a member.
func (tr *tree) exported(name string) bool {
	for _, names := range tr.exports {
		if names[name] {
			return true
		}
	}
	for _, names := range tr.members {
		if names[name] {
			return true
		}
	}
	return false
}
