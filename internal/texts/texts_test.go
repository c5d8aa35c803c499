// SPDX-License-Identifier: Apache-2.0

// Package texts checks that testdata/texts.txt has all texts of the command and the library for people, as one page
// to read and review. PAWL_TEXTS=update go test ./internal/texts writes the page anew.
package texts

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	golden = "testdata/texts.txt"
)

// folders are the folders whose errors and log lines are on the page.
var folders = []string{".", "driver", "internal/client", "internal/participant", "driver/storekit",
	"memlock", "filelock", "redislock", "redislock/internal/*", "redislock/redlock", "zklock", "etcdlock", "pglock",
	"fence", "adapt", "adapt/adapthttp", "cmd/pawl/internal/*"}

func TestTexts(t *testing.T) {
	var page strings.Builder
	page.WriteString("What pawl says. A word in {braces} stands for a value. Written by go test ./internal/texts.\n")
	for _, pattern := range folders {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(dirs) == 0 {
			t.Fatalf("%s: no folder (%v)", pattern, err)
		}
		for _, dir := range dirs {
			if lines := said(t, dir); len(lines) > 0 {
				name := "package pawl"
				if dir != filepath.Clean(root) {
					name = strings.TrimPrefix(dir, root+"/")
				}
				fmt.Fprintf(&page, "\n== errors and log lines: %s\n\n%s\n", name, strings.Join(lines, "\n"))
			}
		}
	}
	helps(t, &page)
	got := page.String()
	if os.Getenv("PAWL_TEXTS") == "update" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	old := map[string]bool{}
	for line := range strings.Lines(string(want)) {
		old[line] = true
	}
	for line := range strings.Lines(got) {
		if !old[line] {
			t.Errorf("new: %s", strings.TrimSpace(line))
		}
	}
	t.Errorf("%s is not what is said: read what is new as somebody who is tired, and write it with PAWL_TEXTS=update go test ./internal/texts", golden)
}

// helps adds the help of each command.
func helps(t *testing.T, page *strings.Builder) {
	t.Helper()
	pawl := filepath.Join(t.TempDir(), "pawl")
	build := exec.Command("go", "build", "-o", pawl, "./cmd/pawl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	help := func(words ...string) []byte {
		cmd := exec.Command(pawl, append(words, "--help")...)
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		fmt.Fprintf(page, "\n== help: %s\n\n%s", strings.Join(append([]string{"pawl"}, words...), " "), out)
		return out
	}
	_, commands, _ := bytes.Cut(help(), []byte("\nAvailable Commands:\n"))
	commands, _, _ = bytes.Cut(commands, []byte("\n\n"))
	for line := range bytes.Lines(commands) {
		if name := string(bytes.Fields(line)[0]); name != "completion" && name != "help" { // those two belong to cobra
			help(name)
		}
	}
	help("nodes", "change")
}

// said returns the errors and log lines in the source of a folder.
func said(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if foreign(n) {
				return false
			}
			text := textOf(n)
			if text == "" && !strings.Contains(dir, "cmd/pawl") { // other sentences there are help
				text = sentence(n)
			}
			if worded(text) && !slices.Contains(lines, text) {
				lines = append(lines, text)
			}
			return text == ""
		})
	}
	return lines
}

// worded reports whether a text has words besides values.
func worded(text string) bool {
	return strings.Contains(strings.TrimSpace(regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(text, "")), " ")
}

// logs are the names of functions and methods whose first argument of text is a line for people.
var logs = regexp.MustCompile(`^(Warn|Note|Error|ErrorContext|tell|urge)$`)

// textOf returns the text for people in a node, or "".
func textOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch name := source(n.Fun); {
		case name == "errors.New", name == "fmt.Errorf":
			return render(n)
		case name == "exit.Fail" && len(n.Args) == 3, name == "Fail" && len(n.Args) == 3:
			return strings.ToLower(last(n.Args[0])) + ": " + joined(n.Args[1], n.Args[2])
		case name == "exit.Usage", name == "Usage" && len(n.Args) == 2:
			return "usage: " + joined(n.Args[0], n.Args[1])
		case strings.HasPrefix(name, "fmt.Fprint") && len(n.Args) > 1 && strings.HasSuffix(strings.ToLower(source(n.Args[0])), "stderr"):
			if name == "fmt.Fprintf" {
				return format(n.Args[1:])
			}
			return render(n.Args[1])
		case name == "fmt.Sprintf" && strings.Contains(render(n.Args[0]), " "):
			return render(n)
		case logs.MatchString(last(n.Fun)) && strings.Contains(name, "."):
			for _, a := range n.Args {
				if text := render(a); strings.Contains(text, " ") {
					return last(n.Fun) + ": " + text
				}
			}
		}
	case *ast.CompositeLit:
		if !strings.HasSuffix(source(n.Type), "Finding") {
			return ""
		}
		parts := map[string]ast.Expr{}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				parts[source(kv.Key)] = kv.Value
			}
		}
		if parts["Text"] != nil {
			return "doctor: " + joined(parts["Text"], parts["Do"])
		}
	}
	return ""
}

// statement matches the begin of a text for a server or the compiler.
var statement = regexp.MustCompile(`^(SELECT|LISTEN|UNLISTEN|NOTIFY|DO|SET|BEGIN|CREATE|INSERT|UPDATE|DELETE|local|\^|\\b) ?|\$\d, `)

// sentence returns the text of a literal, or of literals and values put together, if it has three words or more.
func sentence(n ast.Node) string {
	e, ok := n.(ast.Expr)
	if !ok {
		return ""
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return ""
		}
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return ""
		}
	default:
		return ""
	}
	text := render(e)
	words := regexp.MustCompile(`%[a-zA-Z]|\{[^}]*\}`).ReplaceAllString(text, "")
	if strings.Count(strings.TrimSpace(words), " ") < 2 || strings.Contains(text, "\n") || statement.MatchString(text) {
		return ""
	}
	return text
}

// foreign reports whether a node has words of other programs, for which the code searches.
func foreign(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	return regexp.MustCompile(`^(strings\.(Contains|HasPrefix|HasSuffix|Cut|Trim|Index|Replace|NewReplacer)|regexp\.)`).MatchString(source(call.Fun))
}

func joined(text, hint ast.Expr) string {
	s := render(text)
	if hint == nil {
		return s
	}
	if h := render(hint); h != "" {
		s += "; " + h
	}
	return s
}

// render returns the text of an expression, with the names of values in braces.
func render(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, _ := strconv.Unquote(e.Value)
			return s
		}
		return e.Value
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return render(e.X) + render(e.Y)
		}
	case *ast.ParenExpr:
		return render(e.X)
	case *ast.CallExpr:
		switch source(e.Fun) {
		case "fmt.Sprintf", "fmt.Errorf":
			return format(e.Args)
		case "errors.New", "display.Printable", "printable":
			return render(e.Args[0])
		}
	}
	return "{" + last(e) + "}"
}

var verb = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*(\*|\d+)?(\.\d+)?[a-zA-Z%]`)

// format is like fmt.Sprintf, but puts the names of the values in braces.
func format(args []ast.Expr) string {
	i := 0
	return verb.ReplaceAllStringFunc(render(args[0]), func(v string) string {
		if v == "%%" {
			return "%"
		}
		if m := regexp.MustCompile(`\[(\d+)\]`).FindStringSubmatch(v); m != nil {
			i, _ = strconv.Atoi(m[1])
		} else {
			i++
		}
		if i >= len(args) {
			return "{}"
		}
		text := render(args[i])
		if strings.HasSuffix(v, "q") {
			return `"` + text + `"`
		}
		return text
	})
}

// last returns the name that says most of an expression.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && len(e.Args) > 0 {
			if pkg := source(s.X); pkg == "display" || pkg == "strings" || pkg == "driver" || pkg == "cmp" {
				return last(e.Args[0])
			}
		}
		return last(e.Fun)
	case *ast.StarExpr:
		return last(e.X)
	case *ast.UnaryExpr:
		return last(e.X)
	case *ast.IndexExpr:
		return last(e.X)
	case *ast.SliceExpr:
		return last(e.X)
	case *ast.BinaryExpr:
		return last(e.X)
	case *ast.ParenExpr:
		return last(e.X)
	}
	return "value"
}

// source returns an expression of names and dots.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	}
	return ""
}
