// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// judge checks diaries that are written in lines, one string for each worker.
func judge(t *testing.T, p Promise, diaries ...string) []Violation {
	t.Helper()
	dir := t.TempDir()
	for i, d := range diaries {
		d, cut := strings.CutSuffix(d, " …") // cut off in the middle of a line
		if d = strings.ReplaceAll(strings.TrimSpace(d), "; ", "\n"); !cut {
			d += "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".log"), []byte(d), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run.Check(p)
}

func TestRules(t *testing.T) {
	none := Promise{Quiet: 1000, End: 1000, Tokens: true}
	quiet := Promise{Quiet: 100, End: 1000, Settle: 100, Idle: 300 * time.Nanosecond, Tokens: true}
	for _, c := range []struct {
		what    string
		promise Promise
		want    Rule // empty: nothing
		diaries []string
	}{
		{"one after the other", none, "", []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1; 10 giving 1; 11 gave 1 -",
			"4 ask 1 x alone 0 wait; 12 grant 1 6 l; 13 held 1; 14 held 1"}},
		{"two at once", none, TwoHolders, []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x alone 0 wait; 5 grant 1 6 l; 8 held 1; 14 held 1"}},
		{"one instant inside", none, TwoHolders, []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x alone 0 wait; 5 grant 1 6 l; 8 held 1"}},
		{"granted but never believed", none, "", []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x alone 0 wait; 5 grant 1 6 l; 8 ended 1 lost"}},
		{"other names", none, "", []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 y alone 0 wait; 5 grant 1 5 l; 8 held 1; 14 held 1"}},
		{"readers together", none, "", []string{
			"1 ask 1 x shared 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x shared 0 wait; 5 grant 1 6 l; 8 held 1; 14 held 1"}},
		{"a reader and a writer", none, TwoHolders, []string{
			"1 ask 1 x shared 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x alone 0 wait; 5 grant 1 6 l; 8 held 1; 14 held 1"}},
		{"two slots", none, "", []string{
			"1 ask 1 x slots 2 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x slots 2 wait; 5 grant 1 6 l; 8 held 1; 14 held 1"}},
		{"three of two slots", none, TwoHolders, []string{
			"1 ask 1 x slots 2 wait; 2 grant 1 5 l; 3 held 1; 9 held 1",
			"1 ask 1 x slots 2 wait; 2 grant 1 6 l; 3 held 1; 9 held 1",
			"1 ask 1 x slots 2 wait; 5 grant 1 7 l; 8 held 1; 14 held 1"}},
		{"a token twice", none, OldToken, []string{
			"1 ask 1 x shared 0 wait; 5 grant 1 5 l", "1 ask 1 x shared 0 wait; 5 grant 1 5 l"}},
		{"a smaller token later", none, OldToken, []string{
			"1 ask 1 x shared 0 wait; 5 grant 1 5 l", "6 ask 1 x shared 0 wait; 7 grant 1 4 l"}},
		{"tokens of calls at the same time", none, "", []string{
			"1 ask 1 x shared 0 wait; 5 grant 1 5 l", "4 ask 1 x shared 0 wait; 7 grant 1 4 l"}},
		{"a smaller token of a waiter", none, OldToken, []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 9 held 1; 10 giving 1; 11 gave 1 -",
			"1 ask 1 x alone 0 wait; 12 grant 1 4 l; 13 held 1; 14 held 1"}},
		{"a lease that comes back", none, CameBack, []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 4 ended 1 lost; 5 held 1"}},
		{"a killed holder's last line is cut off", none, "", []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 4 hel …"}},
		{"free, and somebody waits", quiet, Stranded, []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 250 giving 1; 251 gave 1 -",
			"4 ask 1 x alone 0 wait; 600 grant 1 6 l; 600 held 1; 990 giving 1; 999 gave 1 -"}},
		{"free, and somebody waits to the end", quiet, Stranded, []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 250 giving 1; 251 gave 1 -",
			"4 ask 1 x alone 0 wait"}},
		{"handed on in time", quiet, "", []string{
			"1 ask 1 x alone 0 wait; 2 grant 1 5 l; 3 held 1; 450 giving 1; 451 gave 1 -",
			"4 ask 1 x alone 0 wait; 600 grant 1 6 l; 600 held 1; 990 giving 1; 999 gave 1 -"}},
		{"refused again and again", quiet, NeverAgain, []string{
			"1 ask 1 x alone 0 try; 150 failed 1 no; 160 ask 2 x alone 0 try; 500 failed 2 no; 510 ask 3 x alone 0 try; 900 failed 3 no; 1000 closed -"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := judge(t, c.promise, c.diaries...)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || got[0].Rule != c.want) {
				t.Fatalf("got %v, want %q", got, c.want)
			}
		})
	}
}
