// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each source has one test; what it says when it fails decides. The marker file lets a
// test fail in its first run only.
const first = `
func first(t *testing.T) bool {
	f, err := os.OpenFile("marker", os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		f.Close()
	}
	return err == nil
}
`

func TestAgain(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"passes", ``, ""},
		{"late once", `if first(t) { t.Error("no answer within 5s") }`, ""},
		{"late once in a subtest", `if first(t) { t.Run("sub", func(t *testing.T) { t.Error("no answer within 5s") }) }`, ""},
		{"late once beside a subtest that passes", `if first(t) { t.Error("no answer within 5s"); t.Run("sub", func(t *testing.T) {}) }`, ""},
		{"two holders beside a subtest that passes", `if first(t) { t.Error("two holders at a time"); t.Run("sub", func(t *testing.T) {}) }`, "two holders"},
		{"late each time", `t.Error("no answer within 5s")`, "fails alone, too"},
		{"late the second time alone", `f, _ := os.OpenFile("runs", os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o666); f.WriteString("x"); if st, _ := f.Stat(); st.Size() != 2 { t.Error("no answer") }`, "fails alone, too"},
		{"two holders once", `if first(t) { t.Error("two holders at a time") }`, "is not run again"},
		{"two holders in a subtest once", `if first(t) { t.Run("sub", func(t *testing.T) { t.Error("token 5 comes twice") }) }`, "is not run again"},
		{"a race once", `if first(t) { t.Log("x"); println("WARNING: DATA RACE"); t.Error("race detected") }`, "DATA RACE"},
		{"a panic once", `if first(t) { panic("x") }`, "panic"},
		{"a race under another test", `t.Run("a", func(t *testing.T) { t.Parallel(); println("WARNING: DATA RACE") })`, "DATA RACE"},
		{"says nothing of lateness once", `if first(t) { t.Error("TryAcquire = nil") }`, ""},
		{"says nothing of lateness in one of the next five", `f, _ := os.OpenFile("runs", os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o666); f.WriteString("x"); if st, _ := f.Stat(); st.Size() == 1 || st.Size() == 6 { t.Error("TryAcquire = nil") }`, "fails alone, too"},
		{"late and stranded once", `if first(t) { t.Error("stranded: no answer within 5s") }`, "is not run again"},
		{"exits after a late one", `if first(t) { t.Error("no answer") }; }; func TestY(t *testing.T) { os.Exit(3)`, "failed as a whole"},
		{"the race runtime crashes once", `if first(t) { println("FATAL: ThreadSanitizer: CHECK failed: x.cpp:1"); os.Exit(66) }`, ""},
		{"the race runtime crashes in a timer once", `if first(t) { println("fatal error: unexpected signal during runtime execution\n[signal SIGSEGV: segmentation violation]\nruntime.(*timer).maybeRunChan(0x0)"); os.Exit(2) }`, ""},
		{"the race runtime crashes each time", `println("FATAL: ThreadSanitizer: CHECK failed: x.cpp:1"); os.Exit(66)`, "fails alone, too"},
		{"the race runtime crashes beside a race", `if first(t) { println("WARNING: DATA RACE\nThreadSanitizer: CHECK failed: x.cpp:1"); os.Exit(66) }`, "DATA RACE"},
		{"a segmentation fault once", `if first(t) { var p *int; *p = 1 }`, "panic"},
		{"exits once", `if first(t) { os.Exit(3) }`, ""},
		{"does not build", `undefined()`, "failed as a whole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := againOn(t, c.body, "1m")
			if c.name == "exits once" {
				if err == nil {
					t.Errorf("a package that exits in the middle passed:\n%s", out)
				}
				return
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("run = %v; want %q\n%s", err, c.want, out)
			}
			notes, _ := os.ReadFile(filepath.Join(".work", "times"))
			if strings.Contains(string(notes), "flaky: example/p TestX failed") != (strings.HasPrefix(c.name, "late once") || c.name == "says nothing of lateness once") {
				t.Errorf("it noted %q", notes)
			}
		})
	}
}

// againOn runs a module whose one test has a body.
func againOn(t *testing.T, body, timeout string) (string, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "off")
	write(t, "go.mod", "module example\n\ngo 1.26\n")
	write(t, "p/x_test.go", "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n"+first+"\nfunc TestX(t *testing.T) {\n"+body+"\n}\n")
	var out strings.Builder
	err := run([]string{"-timeout", timeout, "--", "./..."}, &out)
	return out.String(), err
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestPassed: what has passed the first time is written down, and nothing else.
func TestPassed(t *testing.T) {
	out, err := againOn(t, `t.Run("passes", func(t *testing.T) {}); t.Run("skips", func(t *testing.T) { t.Skip() }); t.Run("late", func(t *testing.T) { if first(t) { t.Error("no answer") } })
}
func TestY(t *testing.T) {`, "1m")
	got, _ := os.ReadFile(filepath.Join(".work", "passed"))
	if want := "example/p TestX/passes\nexample/p TestY\n"; err != nil || string(got) != want {
		t.Errorf("run = %v, and wrote %q; want %q\n%s", err, got, want, out)
	}
}

func TestManyFailuresAreFinal(t *testing.T) {
	var body strings.Builder
	for _, n := range []string{"A", "B", "C", "D", "E", "F"} {
		body.WriteString("}\nfunc Test" + n + "(t *testing.T) { t.Error(\"late\")\n")
	}
	if out, err := againOn(t, body.String(), "1m"); err == nil || !strings.Contains(err.Error(), "6 tests failed") {
		t.Errorf("run = %v; want an end after six failures\n%s", err, out)
	}
}

// TestHang: the stack is printed, and the package has to pass alone.
func TestHang(t *testing.T) {
	const hangs = `t.Run("sub", func(t *testing.T) { select {} })`
	out, err := againOn(t, "if first(t) { "+hangs+" }", "3s")
	if notes, _ := os.ReadFile(filepath.Join(".work", "times")); err != nil || !strings.Contains(out, "goroutine ") || !strings.Contains(string(notes), "example/p failed") {
		t.Errorf("run = %v, and noted %q; want the stack and a note\n%s", err, notes, out)
	}
	for what, body := range map[string]string{
		"hangs after a race":       `println("WARNING: DATA RACE"); ` + hangs,
		"hangs beside two holders": `t.Run("a", func(t *testing.T) { t.Error("two holders") }); ` + hangs,
	} {
		if out, err := againOn(t, "if first(t) { "+body+" }", "3s"); err == nil {
			t.Errorf("%s: passed\n%s", what, out)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-race"}, {"-race", "--"}} {
		if err := run(args, os.Stdout); err == nil {
			t.Errorf("run(%q) = nil; want an error", args)
		}
	}
}
