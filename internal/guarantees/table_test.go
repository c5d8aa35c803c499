// SPDX-License-Identifier: Apache-2.0

package guarantees

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// words are the rows of the table.
var words = map[string]string{
	"Fencing":         "fencing token grows with every lease",
	"FIFO":            "waiters are served in order",
	"CrossHost":       "holders on different machines",
	"Expiry":          "lease ends after its TTL",
	"SurvivesRestart": "leases survive a restart of the store",
	"Shared":          "shared leases",
	"Slots":           "slots, n at a time",
	"Downgrades":      "`Downgrade`, from exclusive to shared in one step",
	"Keeps":           "`KeepIdle`, the same lock again without a request",
	"LongerTTL":       "`Extend` to more than the first TTL",
	"Adopts":          "renewed and ended by its id, as `pawl acquire` needs",
}

const (
	begin = "<!-- Written by DRIVERTEST_UPDATE=1 go test ./internal/guarantees, from what the suites of the stores\n" +
		"have found; the text of each footnote is kept, and is written by hand. -->\n"
	end     = "<!-- end -->\n"
	missing = "TODO: say why"
)

// names returns the names of the guarantees, and of the abilities that users see.
func names() []string {
	var all []string
	for i, t := 0, reflect.TypeFor[driver.Guarantees](); i < t.NumField(); i++ {
		all = append(all, t.Field(i).Name)
	}
	return append(all, "Downgrades", "Keeps", "LongerTTL", "Adopts")
}

// page is what is written to the documentation: tables, and footnotes, of which
// only the text is somebody's work.
type page struct {
	strings.Builder
	written map[string]string // the text of the footnotes so far, by their label
	used    []string          // labels
}

var footnote = regexp.MustCompile(`(?m)^\[\^([\w-]+)\]: (.*)$`)

// note refers to a footnote. If it must not be missing, it is made.
func (p *page) note(label string, must bool) string {
	if p.written[label] == "" {
		if !must {
			return ""
		}
		p.written[label] = missing
	}
	p.used = append(p.used, label)
	return "[^" + label + "]"
}

// docs are the pages with a part that is written here.
var docs = []struct {
	path string
	part func(*page, []suite)
}{
	{root + "/docs/guarantees/README.md", (*page).table},
	{root + "/docs/guarantees/suites.md", (*page).suites},
}

// render returns what belongs between begin and end, with the footnotes of old.
func render(part func(*page, []suite), all []suite, old string) string {
	p := &page{written: make(map[string]string)}
	for _, m := range footnote.FindAllStringSubmatch(old, -1) {
		p.written[m[1]] = m[2]
	}
	part(p, all)
	p.WriteString("\n")
	for _, label := range p.used {
		fmt.Fprintf(p, "[^%s]: %s\n", label, p.written[label])
	}
	return p.String()
}

// table has a column for each store.
func (p *page) table(all []suite) {
	rule := "|---|"
	p.WriteString("| |")
	for _, s := range all {
		if s.title != "" {
			fmt.Fprintf(p, " %s |", s.title)
			rule += "---|"
		}
	}
	p.WriteString("\n" + rule + "\n")
	for _, g := range names() {
		fmt.Fprintf(p, "| %s (`%s`) |", words[g], g)
		for _, s := range all {
			switch {
			case s.title == "":
			case s.has[g]:
				fmt.Fprintf(p, " yes%s |", p.note(s.name+"-"+g, false))
			default:
				fmt.Fprintf(p, " **no**%s |", p.note(s.name+"-no-"+g, true))
			}
		}
		p.WriteString("\n")
	}
}

// suites says what the suites lack besides what the table says.
func (p *page) suites(all []suite) {
	p.WriteString("| suite | has no |\n|---|---|\n")
	for _, s := range all {
		if lacks := s.lacks(all); lacks != nil {
			fmt.Fprintf(p, "| `%s` | `%s`%s |\n", s.file, strings.Join(lacks, "`, `"), p.note("suite-"+s.name, true))
		}
	}
}

// check returns what is wrong with the footnotes that belong between begin and end.
func check(all []suite, text string) (wrong []string) {
	for _, m := range footnote.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[2], missing) || len(m[2]) < 10 {
			wrong = append(wrong, fmt.Sprintf("the footnote %s does not say why", m[1]))
		}
	}
	for _, s := range all {
		label := "suite-" + s.name
		m := regexp.MustCompile(`(?m)^\[\^` + label + `\]: (.*)$`).FindStringSubmatch(text)
		if m == nil {
			continue
		}
		lacks := s.lacks(all)
		for what := range s.has {
			if said := strings.Contains(m[1], "`"+what+"`"); said != slices.Contains(lacks, what) {
				wrong = append(wrong, fmt.Sprintf("the footnote %s names %s: %v; want the opposite", label, what, said))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}
