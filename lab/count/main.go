// SPDX-License-Identifier: Apache-2.0

// Count prints how large the project is: lines of code, words of documentation, and functions
// with too many branches. A line counts if it has a token other than a comment.
//
//	go run ./lab/count
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// stores are the folders of the stores. A file belongs to the first store whose folder contains it.
var stores = []string{"memlock", "filelock", "pglock", "etcdlock", "zklock", "redislock/redlock", "redislock"}

// notProduct are the folders with tests, proofs, tools and examples.
var notProduct = []string{"lab/", "driver/drivertest/", "internal/", "redislock/examples/"}

// product are the folders below notProduct that belong to the product.
var product = []string{"internal/client/", "internal/line/", "internal/nodewire/", "internal/participant/", "internal/schedule/", "internal/trust/"}

// examples are the folders below product with example stores, which do not belong to the product.
var examples = []string{"internal/participant/queuestore/", "internal/participant/tablestore/"}

const tooComplex = 15

type counts struct {
	product, tests, lua, sql, words int
	store                           map[string]int
	complex                         []string
}

func main() {
	c, err := count(".")
	if err == nil {
		err = c.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

func count(root string) (*counts, error) {
	cmd := exec.Command("git", "ls-files")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	c := &counts{store: map[string]int{}}
	for _, file := range strings.Fields(string(list)) {
		if strings.Contains(file, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) { // deleted and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := c.add(file, text); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *counts) add(file string, text []byte) error {
	switch filepath.Ext(file) {
	case ".go":
		lines := codeLines(text)
		if !isProduct(file) {
			c.tests += lines
			return nil
		}
		c.product += lines
		if i := slices.IndexFunc(stores, func(s string) bool { return strings.HasPrefix(file, s+"/") }); i >= 0 {
			c.store[stores[i]] += lines
		}
		return c.addComplex(file, text)
	case ".lua":
		c.lua += commentedLines(text)
	case ".sql":
		c.sql += commentedLines(text)
	case ".md":
		if file != "CHANGELOG.md" {
			c.words += len(strings.Fields(string(text)))
		}
	}
	return nil
}

func isProduct(file string) bool {
	has := func(prefix string) bool { return strings.HasPrefix(file, prefix) }
	return !strings.HasSuffix(file, "_test.go") && !slices.ContainsFunc(examples, has) && (slices.ContainsFunc(product, has) || !slices.ContainsFunc(notProduct, has))
}

// codeLines counts the lines of Go that have a token other than a comment.
func codeLines(text []byte) int {
	var s scanner.Scanner
	files := token.NewFileSet()
	f := files.AddFile("", files.Base(), len(text))
	s.Init(f, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := f.Line(pos)
		for i := range strings.Count(lit, "\n") + 1 { // a string may have several lines
			lines[first+i] = true
		}
	}
}

// commentedLines counts the lines of Lua or SQL that are neither empty nor comments.
func commentedLines(text []byte) (n int) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			n++
		}
	}
	return n
}

// addComplex notes the functions whose cyclomatic complexity is greater than tooComplex. The complexity
// is 1, plus 1 for each branch and for each && and ||.
func (c *counts) addComplex(file string, text []byte) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := complexity(fn); n > tooComplex {
			c.complex = append(c.complex, fmt.Sprintf("%s: %s %d", file, fn.Name, n))
		}
	}
	return nil
}

func complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func (c *counts) print(w io.Writer) error {
	var b strings.Builder
	row := func(what string, n int) { fmt.Fprintf(&b, "%-50s %7d\n", what, n) }
	row("product, lines of Go", c.product)
	for _, s := range stores {
		row("  "+s, c.store[s])
	}
	row("tests and lab, lines of Go", c.tests)
	row("Lua, lines", c.lua)
	row("SQL, lines", c.sql)
	row("documentation, words", c.words)
	row(fmt.Sprintf("product functions with a complexity over %d", tooComplex), len(c.complex))
	for _, f := range c.complex {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
