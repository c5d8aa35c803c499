// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	fence     = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```")
	indented  = regexp.MustCompile(`(?m)^ {4,}(\S.*)$`)
	inline    = regexp.MustCompile("`([^`\n]+)`")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	testName  = regexp.MustCompile(`\bTest[A-Z]\w*`)
	variable  = regexp.MustCompile(`\$([A-Z]+_[A-Z_]+)\b|(?:^|\s)([A-Z]+_[A-Z_]+)=`)
	qualified = regexp.MustCompile(`(?:^|[^\w./])([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	member    = regexp.MustCompile(`^([A-Z]\w+)\.([A-Z]\w+)`)
	call      = regexp.MustCompile(`^([A-Z]\w+)\(`)
	sentinel  = regexp.MustCompile(`^\*?(Err[A-Z]\w+|[A-Z]\w+Error)$`)
	goDoc     = regexp.MustCompile(`(?:^|[^\w/])(docs/[\w/-]+(?:\.md)?)`)
	longFlag  = regexp.MustCompile(`^--?([a-z][a-z-]*)`)
	makeCall  = regexp.MustCompile(`^make ([a-z-]+)`)
)

// mistakes returns the names in a page for which the tree has nothing.
func (tr *tree) mistakes(page, text string) (wrong []string) {
	say := func(format string, args ...any) {
		if w := fmt.Sprintf(format, args...); !slices.Contains(wrong, w) {
			wrong = append(wrong, w)
		}
	}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		tr.checkLink(page, text, m[1], say)
	}
	spans, lines, program := code(text)
	for _, s := range spans {
		tr.checkSpan(page, s, say)
	}
	for _, c := range append(lines, spans...) {
		tr.checkCommand(c, say)
	}
	for _, s := range append(program, spans...) {
		tr.checkNames(s, say)
	}
	for _, name := range testName.FindAllString(goTest.ReplaceAllString(text, ""), -1) {
		if !tr.anyTest(func(test string) bool { return strings.HasPrefix(test, name) }) {
			say("there is no test %s", name)
		}
	}
	return wrong
}

// code returns the spans between backticks, the lines of code blocks, and the blocks of Go.
func code(text string) (spans, lines, program []string) {
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == "go" {
			program = append(program, m[2])
		} else {
			lines = append(lines, strings.Split(m[2], "\n")...)
		}
	}
	text = fence.ReplaceAllString(text, "")
	for _, m := range indented.FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1])
	}
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		spans = append(spans, m[1])
	}
	return spans, lines, program
}

func (tr *tree) checkLink(page, text, target string, say func(string, ...any)) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		file = path.Join(path.Dir(page), file)
		if !tr.files[file] {
			say("the link to %s leads nowhere", target)
			return
		}
		text = tr.pages[file]
	}
	if anchor == "" || text == "" {
		return
	}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if slug(m[1]) == anchor {
			return
		}
	}
	say("the link to %s names a heading that is not there", target)
}

// slug returns the anchor that GitHub makes for a heading.
func slug(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(heading, " ", "-")
}

var (
	filePath = regexp.MustCompile(`^(?:\./)?[\w@-][\w.@-]*(?:/[\w.@-]+)*/?$`)
	fileName = regexp.MustCompile(`^[\w-]+\.(?:go|lua|md|sh|svg|txtar)$`)
)

// checkSpan checks files, and flags outside of commands.
func (tr *tree) checkSpan(page, span string, say func(string, ...any)) {
	word, _, _ := strings.Cut(span, " ")
	clean := strings.TrimSuffix(strings.TrimPrefix(word, "./"), "/")
	top, _, deep := strings.Cut(clean, "/")
	switch {
	case fileName.MatchString(word) && !foreign[word]:
		for f := range tr.files {
			if path.Base(f) == word {
				return
			}
		}
		say("there is no file %s", word)
	case deep && filePath.MatchString(word) && tr.files[top]:
		if !tr.files[clean] && !tr.files[path.Join(path.Dir(page), clean)] {
			say("there is no file %s", word)
		}
	case strings.HasPrefix(word, "--"):
		m := longFlag.FindStringSubmatch(word)
		for _, flags := range tr.flags {
			if m == nil || flags[m[1]] {
				return
			}
		}
		say("no command of ours has the flag %s", word)
	}
}

// checkCommand checks verbs, flags, targets of make, variables and tests.
func (tr *tree) checkCommand(line string, say func(string, ...any)) {
	line, _, _ = strings.Cut(line, " #")
	for _, m := range variable.FindAllStringSubmatch(line, -1) {
		if name := m[1] + m[2]; !strings.Contains(tr.source.String(), name) {
			say("nothing reads the variable %s", name)
		}
	}
	for m := range goTests(line) {
		tr.checkGoTest(m, say)
	}
	line = strings.TrimPrefix(line, "$ ")
	if m := makeCall.FindStringSubmatch(line); m != nil && !tr.targets[m[1]] {
		say("make has no target %s", m[1])
	}
	fields := strings.Fields(strings.Replace(line, "go run ./", "", 1))
	if len(fields) == 0 {
		return
	}
	name := path.Base(fields[0])
	flags, ours := tr.flags[name]
	if !ours || strings.HasSuffix(line, ":") {
		return
	}
	if name == "pawl" && len(fields) > 1 && regexp.MustCompile(`^[a-z][a-z-]+$`).MatchString(fields[1]) && !tr.verbs[fields[1]] {
		say("pawl has no command %s", fields[1])
	}
	for _, f := range fields[1:] {
		if f == "--" {
			return
		}
		m := longFlag.FindStringSubmatch(f)
		if m == nil || name == "pawl" && !strings.HasPrefix(f, "--") {
			continue
		}
		if !flags[m[1]] {
			say("%s has no flag %s", name, f)
		}
	}
}

// checkNames checks exported names of our packages.
func (tr *tree) checkNames(text string, say func(string, ...any)) {
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		names, ours := tr.exports[m[1]]
		switch {
		case !ours || m[1] == "main" || foreign[m[1]+"."+m[2]]:
		case !names[m[2]]:
			say("package %s has no %s", m[1], m[2])
		case m[3] != "" && (tr.members[m[2]] != nil || tr.embeds[m[2]] != nil) && !tr.hasMember(m[2], m[3]):
			say("%s.%s has no %s", m[1], m[2], m[3])
		}
	}
	if m := member.FindStringSubmatch(text); m != nil && !foreign[m[0]] && !tr.hasMember(m[1], m[2]) {
		say("there is no %s", m[0])
	}
	if m := call.FindStringSubmatch(text); m != nil && !tr.exported(m[1]) {
		say("there is no %s()", m[1])
	}
	if m := sentinel.FindStringSubmatch(text); m != nil && !foreign[m[1]] && !tr.exported(m[1]) {
		say("there is no %s", m[1])
	}
}

// foreign are names of other projects that look like ours.
var foreign = map[string]bool{
	"AfterLockError": true, // of gocron
	"client.Obtain":  true, // of bsm/redislock
	"zkCli.sh":       true, // of ZooKeeper
}
