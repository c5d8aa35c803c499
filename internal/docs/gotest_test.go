// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"iter"
	"regexp"
	"strings"
)

// goTest matches a go test command. Its arguments end at the end of the line, a comment or a backtick.
var goTest = regexp.MustCompile("go test [^`#\n]*")

// goTests yields the arguments of each go test command in line.
func goTests(line string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for _, m := range goTest.FindAllString(line, -1) {
			if !yield(words(strings.TrimPrefix(m, "go test "))) {
				return
			}
		}
	}
}

// words splits a text into words as a shell does. It knows single quotes only.
func words(s string) (all []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|([^\s']+)`).FindAllStringSubmatch(s, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// checkGoTest checks that one of the packages has each alternative of -run and -bench.
func (tr *tree) checkGoTest(args []string, say func(string, ...any)) {
	var patterns, dirs []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case (a == "-run" || a == "-bench") && i+1 < len(args):
			i++
			patterns = append(patterns, split(args[i], '|')...)
		case a == "-count" || a == "-benchtime" || a == "-timeout":
			i++
		case strings.HasPrefix(a, "."):
			found := tr.folders(strings.TrimRight(a, ",;.:")) // punctuation at the end of a sentence, or /...
			if found == nil && a != "./..." {
				say("there are no tests in %s", a)
			}
			dirs = append(dirs, found...)
		}
	}
	for _, p := range patterns {
		if p == "^$" || p == "." {
			continue
		}
		parts := split(p, '/')
		if !tr.in(dirs, parts[0], false) {
			say("%s is no test of %s", parts[0], strings.Join(dirs, " "))
		} else if len(parts) > 1 && !tr.in(append(dirs, "driver/drivertest/wiretest"), parts[1], true) && !tr.files["cmd/pawl/testdata/script/"+parts[1]+".txtar"] {
			say("%s has no subtest %s", parts[0], parts[1])
		}
	}
}

// folders returns the folders with tests that an argument names.
func (tr *tree) folders(arg string) (dirs []string) {
	base := strings.Trim(strings.TrimPrefix(arg, "."), "/")
	for dir := range tr.tests {
		if dir == base || dir == "." && base == "" || strings.HasPrefix(dir, base+"/") {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// in looks for a test, or for a subtest in the text of tests.
func (tr *tree) in(dirs []string, pattern string, subtest bool) bool {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return false
	}
	for _, dir := range dirs {
		if subtest {
			if regexp.MustCompile(strings.Trim(pattern, "^$")).MatchString(tr.literal[dir]) {
				return true
			}
			continue
		}
		for _, test := range tr.tests[dir] {
			if re.MatchString(test) {
				return true
			}
		}
	}
	return len(dirs) == 0 && tr.anyTest(re.MatchString)
}

func (tr *tree) anyTest(ok func(string) bool) bool {
	for _, tests := range tr.tests {
		for _, test := range tests {
			if ok(test) {
				return true
			}
		}
	}
	return false
}

// split splits s at sep, but not within parentheses.
func split(s string, sep rune) (parts []string) {
	depth, from := 0, 0
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == sep && depth == 0:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}
