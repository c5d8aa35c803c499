// SPDX-License-Identifier: Apache-2.0

package display

import (
	"testing"
	"unicode/utf8"

	"strings"
)

func TestTableFits(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for _, c := range []struct {
		name, holder, why string
		want              string // the cells of the line after fitting
	}{
		{"deploy", "alice@ci (pid 1)", "release 7", "deploy|alice@ci (pid 1)|release 7"},
		{"deploy", long, "release 7", "deploy|" + strings.Repeat("ä", 60) + "…|release 7"},
		{"deploy", long, long, "deploy|" + strings.Repeat("ä", 34) + "…|" + strings.Repeat("ä", 34) + "…"},
		{long, long, "short", strings.Repeat("ä", 58) + "…|" + strings.Repeat("ä", 11) + "…|short"},
		{long, long, long, strings.Repeat("ä", 51) + "…|" + strings.Repeat("ä", 11) + "…|" + strings.Repeat("ä", 11) + "…"},
	} {
		tab := Table{{"NAME", "HOLDER", "WHY"}, {c.name, c.holder, c.why}}
		lines := tab.Lines(80, []int{1, 2}, 0)
		if got := strings.Join(tab[1], "|"); got != c.want {
			t.Errorf("%.10s %.10s %.10s: got %s, want %s", c.name, c.holder, c.why, got, c.want)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("a line has %d characters: %s", n, line)
			}
		}
	}
}

// A pipe gets everything.
func TestTableInAPipe(t *testing.T) {
	long := strings.Repeat("x", 200)
	if got := (Table{{"NAME", "WHY"}, {"deploy", long}}).Lines(0, []int{1}, 0); got[0] != "NAME    WHY" || got[1] != "deploy  "+long {
		t.Errorf("%q", got)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"make", "deploy"}, "make deploy"},
		{[]string{"sh", "-c", "a b"}, "sh -c 'a b'"},
		{[]string{"echo", "it's", ""}, `echo 'it'\''s' ''`},
		{[]string{strings.Repeat("ä", 300)}, strings.Repeat("ä", 98) + "…"},
		{[]string{"\xff"}, "'\uFFFD'"},
	} {
		if got := CommandLine(c.words); got != c.want || len(got) > maxCommand {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}

// TestPublicCommand: no flag and no value is shown to others.
func TestPublicCommand(t *testing.T) {
	for _, c := range [][2]string{
		{"make deploy", "make deploy"},
		{"terraform apply -auto-approve -var password=s3cret", "terraform apply"},
		{"/usr/local/bin/git push https://me:s3cret@host", "/usr/local/bin/git push"},
		{"./gradlew db:migrate", "./gradlew db:migrate"},
		{"git --git-dir=/s3cret push", "git"},
		{"make S3CRET=s3cret", "make"},
		{"vault s3cret", "vault"},
		{"mysql -ps3cret db", "mysql"},
		{"./job hunter", "./job"},
		{"sh -c s3cret", "sh"},
		{"env PASSWORD=s3cret work", "env"},
		{"true", "true"},
	} {
		if got := PublicCommand(strings.Fields(c[0])); got != c[1] {
			t.Errorf("%s: shown is %q, want %q", c[0], got, c[1])
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := Printable("a\x1b[2Jb\nc\u202ed ü\xff"); got != "a\uFFFD[2Jb\uFFFDc\uFFFDd ü\uFFFD" {
		t.Errorf("%q", got)
	}
}
