// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// chosen names the environment variable with the number of the mutant that a process
// runs. Without it the process runs no mutant. The name begins with GO, because the guards of cmd/pawl
// keep such variables.
const chosen = "GO_PAWL_MUTANT"

// A build has every mutant behind a switch, so that one test binary for each package is
// enough for hundreds of mutants. Each mutant of a function is a copy of the function, and the
// original begins with a jump to the chosen copy. For package variables and embedded scripts,
// the initialisation chooses the value.
type build struct {
	files   map[string]*source // by path below the root
	replace map[string]string  // the overlay: file -> replacement
	broken  map[*mutant]error  // mutants that do not fit the source
}

// source is a file and the changes to it.
type source struct {
	text  string
	fset  *token.FileSet
	ast   *ast.File
	edits []change // inserted or replaced
	tail  strings.Builder
	cases map[*ast.FuncDecl][]string
	picks map[ast.Expr][]string
}

// change replaces text[from:to].
type change struct {
	from, to int
	text     string
}

// newBuild writes the files with switches into dir. Mutant i has the number i+1.
func newBuild(dir string, all []*mutant) (*build, error) {
	b := &build{files: make(map[string]*source), replace: make(map[string]string), broken: make(map[*mutant]error)}
	scripts := make(map[string][]string) // Lua or SQL file -> patches
	for i, m := range all {
		if err := b.add(i+1, m, scripts); err != nil {
			b.broken[m] = err
		}
	}
	// The order is the same each time, so that the next build can use the cache.
	for _, file := range slices.Sorted(maps.Keys(scripts)) {
		if err := b.embed(file, scripts[file]); err != nil {
			return nil, err
		}
	}
	return b, b.write(dir)
}

// add puts one mutant behind its switches.
func (b *build) add(number int, m *mutant, scripts map[string][]string) error {
	byDecl := make(map[ast.Node][]change)
	owner := make(map[ast.Node]*source)
	var nodes []ast.Node
	for _, e := range m.edits {
		s, err := b.source(e.file)
		if err != nil {
			return err
		}
		from, to, err := e.find(s.text)
		if err != nil {
			return err
		}
		if s.ast == nil {
			scripts[e.file] = append(scripts[e.file], fmt.Sprintf("{%d, %q, %q}", number, s.text[from:to], e.new))
			continue
		}
		c := narrow(s.text, from, to, e.new)
		node := s.switchable(c)
		if node == nil {
			return fmt.Errorf("%s: %q is in no function and no package variable: no switch can hold it; mutate what uses it", e.file, e.old)
		}
		if owner[node] == nil {
			nodes = append(nodes, node)
		}
		byDecl[node], owner[node] = append(byDecl[node], c), s
	}
	for _, node := range nodes {
		if err := owner[node].put(number, m.name, node, byDecl[node]); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) source(file string) (*source, error) {
	if s, ok := b.files[file]; ok {
		return s, nil
	}
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	s := &source{text: string(data), fset: token.NewFileSet(),
		cases: make(map[*ast.FuncDecl][]string), picks: make(map[ast.Expr][]string)}
	if strings.HasSuffix(file, ".go") {
		if s.ast, err = parser.ParseFile(s.fset, file, data, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	b.files[file] = s
	return s, nil
}

// narrow leaves out the common beginning and the common end of text[from:to] and new.
func narrow(text string, from, to int, new string) change {
	for from < to && len(new) > 0 && text[from] == new[0] {
		from, new = from+1, new[1:]
	}
	for from < to && len(new) > 0 && text[to-1] == new[len(new)-1] {
		to, new = to-1, new[:len(new)-1]
	}
	return change{from, to, new}
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// has reports whether c is within the node.
func (s *source) has(n ast.Node, c change) bool {
	return s.offset(n.Pos()) <= c.from && c.to <= s.offset(n.End())
}

// switchable returns the function, or the value of a package variable, that c changes,
// or nil if it changes something else.
func (s *source) switchable(c change) ast.Node {
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && s.has(f.Body, c) {
			return f
		}
		vars, ok := d.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				if s.has(v, c) {
					return v
				}
			}
		}
	}
	return nil
}

// put adds the mutated copy of a function or value. It refuses a copy that cannot be parsed,
// because no other mutant could be built with it.
func (s *source) put(number int, mutant string, n ast.Node, changes []change) error {
	if f, ok := n.(*ast.FuncDecl); ok {
		from := s.offset(f.Body.Pos())
		name := fmt.Sprintf("%s__%d", f.Name.Name, number)
		head, call := s.signature(f, name)
		mutated := head + " " + apply(s.text[from:s.offset(f.End())], from, changes)
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package x\n"+mutated, 0); err != nil {
			return fmt.Errorf("the mutant is no Go: %w", err)
		}
		fmt.Fprintf(&s.tail, "\n//line mutant %q:1\n%s\n", mutant, mutated) // so that the compiler's messages name the mutant
		s.cases[f] = append(s.cases[f], fmt.Sprintf("case %d: %s", number, call))
		return nil
	}
	from := s.offset(n.Pos())
	mutated := apply(s.text[from:s.offset(n.End())], from, changes)
	if _, err := parser.ParseExpr(mutated); err != nil {
		return fmt.Errorf("the mutant is no Go: %w", err)
	}
	v := n.(ast.Expr)
	s.picks[v] = append(s.picks[v], fmt.Sprintf("mutantPick__(%d, %s, ", number, mutated))
	return nil
}

// signature returns the head of the function under another name, in which each parameter has a
// name, and the statement that calls the function.
func (s *source) signature(f *ast.FuncDecl, name string) (head, call string) {
	recv, to := "", name
	if f.Recv != nil {
		r, args := s.fields(f.Recv)
		recv, to = "("+r+") ", args[0]+"."+name
	} else if f.Type.TypeParams != nil {
		var types []string
		for _, p := range f.Type.TypeParams.List {
			for _, n := range p.Names {
				types = append(types, n.Name)
			}
		}
		to += "[" + strings.Join(types, ", ") + "]"
	}
	params, args := s.fields(f.Type.Params)
	typeParams, results := "", ""
	if f.Type.TypeParams != nil {
		typeParams = s.slice(f.Type.TypeParams)
	}
	call = to + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results != nil {
		results, call = s.slice(f.Type.Results), "return "+call
	} else {
		call += "; return"
	}
	return fmt.Sprintf("func %s%s%s(%s) %s", recv, name, typeParams, params, results), call
}

// fields returns parameters that all have names, and the arguments that pass them on.
func (s *source) fields(l *ast.FieldList) (params string, args []string) {
	var list []string
	for _, f := range l.List {
		names := f.Names
		if len(names) == 0 {
			names = []*ast.Ident{{Name: "_"}}
		}
		for _, n := range names {
			name := n.Name
			if name == "_" {
				name = fmt.Sprintf("p%d_%d__", s.offset(f.Pos()), len(args))
			}
			list = append(list, name+" "+s.slice(f.Type))
			if _, variadic := f.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	return strings.Join(list, ", "), args
}

func (s *source) slice(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

// apply makes changes in text, which begins at the offset from.
func apply(text string, from int, changes []change) string {
	slices.SortFunc(changes, func(a, b change) int { return b.from - a.from })
	for _, c := range changes {
		text = text[:c.from-from] + c.text + text[c.to-from:]
	}
	return text
}

// embed makes the package patch a script when it is initialised. The variable with the embedded
// script gets another name.
func (b *build) embed(lua string, patches []string) error {
	dir := path.Dir(path.Dir(lua))
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	directive := "//go:embed " + strings.TrimPrefix(lua, dir+"/") + "\n"
	for _, file := range files {
		below, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		s, err := b.source(filepath.ToSlash(below))
		if err != nil {
			return err
		}
		at := strings.Index(s.text, directive)
		if at < 0 {
			continue
		}
		line, _, _ := strings.Cut(s.text[at+len(directive):], "\n")
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "var "))
		if len(words) != 2 || words[1] != "string" {
			return fmt.Errorf("%s: %q is not NAME string", below, line)
		}
		from := at + len(directive) + strings.Index(line, words[0])
		s.edits = append(s.edits, change{from, from + len(words[0]), words[0] + "__embedded"})
		fmt.Fprintf(&s.tail, "\nvar %s = mutantText__(%s__embedded, []mutantPatch__{%s})\n", words[0], words[0], strings.Join(patches, ", "))
		return nil
	}
	return fmt.Errorf("nobody embeds %s", lua)
}
