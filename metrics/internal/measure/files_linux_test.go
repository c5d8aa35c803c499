// SPDX-License-Identifier: Apache-2.0

package measure_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/metrics/internal/measure"
)

const folder = "../.."

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatalf("%v: internal/deps.sh installs it", err)
	}
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var metric = regexp.MustCompile(`\bpawl_[a-z_]+`)

// used returns the instruments that a text names, and fails if it names one that is not there.
func used(t *testing.T, what, text string) (names []string) {
	t.Helper()
	for _, name := range metric.FindAllString(text, -1) {
		i := slices.IndexFunc(measure.Instruments, func(i *measure.Instrument) bool {
			rest, ok := strings.CutPrefix(name, i.Prometheus())
			return ok && (rest == "" || i.Kind == measure.Histogram && slices.Contains([]string{"_bucket", "_sum", "_count"}, rest))
		})
		if i < 0 {
			t.Errorf("%s names %s, which is no metric of ours", what, name)
			continue
		}
		names = append(names, measure.Instruments[i].Prometheus())
	}
	return names
}

// Each alert fires when it should, as testdata says, and not when all is well.
func TestAlerts(t *testing.T) {
	rules := read(t, folder+"/alerts.yaml")
	used(t, "alerts.yaml", rules)
	tests := read(t, folder+"/testdata/alerts_test.yaml")
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(tests, "alertname: "+m[1]+"\n        exp_alerts:") {
			t.Errorf("no test lets %s fire", m[1])
		}
		if !strings.Contains(tests, "alertname: "+m[1]+"}") {
			t.Errorf("no test keeps %s from firing", m[1])
		}
	}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(folder, "alerts.yaml"))
	promtool(t, "test", "rules", filepath.Join(folder, "testdata", "alerts_test.yaml"))
}

// The dashboard shows every metric, and Prometheus understands what it asks for.
func TestDashboard(t *testing.T) {
	var d struct {
		UID, Title string
		Panels     []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ H, W, X, Y int }
			Targets                  []struct{ RefID, Expr, LegendFormat string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(read(t, folder+"/grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	vars := strings.NewReplacer("$__rate_interval", "5m", "$class", ".*", "$instance", ".*")
	for _, v := range d.Templating.List {
		if !strings.Contains(read(t, folder+"/grafana.json"), "$"+v.Name) && v.Name != "datasource" {
			t.Errorf("nothing uses the variable %s", v.Name)
		}
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	shown, places := map[string]bool{}, map[string]bool{}
	for i, p := range d.Panels {
		place := fmt.Sprint(p.GridPos)
		if p.ID != i+1 || p.Title == "" || p.Description == "" || places[place] || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q: an id of its own, a title, a description, a place of its own and a query are wanted", p.ID, p.Title)
		}
		places[place] = true
		for _, q := range p.Targets {
			for _, name := range used(t, p.Title, q.Expr) {
				shown[name] = true
			}
			fmt.Fprintf(&rules, "  - record: panel_%d_%s\n    expr: %q\n", p.ID, q.RefID, vars.Replace(q.Expr))
		}
	}
	for _, i := range measure.Instruments {
		if !shown[i.Prometheus()] {
			t.Errorf("no panel shows %s", i.Prometheus())
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rules.String(), "$") {
		t.Errorf("a variable of the dashboard is not known here:\n%s", rules.String())
	}
	promtool(t, "check", "rules", "--lint=none", file)
}

// The page describes every metric with all its labels, and no other.
func TestPage(t *testing.T) {
	page := read(t, folder+"/../docs/metrics.md")
	used(t, "docs/metrics.md", page)
	for _, i := range measure.Instruments {
		row := "| `" + i.Prometheus() + "` | `" + i.Name + "` | "
		_, rest, ok := strings.Cut(page, row)
		if !ok {
			t.Errorf("docs/metrics.md has no row %s", row)
			continue
		}
		rest, _, _ = strings.Cut(rest, "\n")
		for _, l := range i.Labels {
			if !strings.Contains(rest, "`"+l+"`") {
				t.Errorf("docs/metrics.md: %s has the label %s, too", i.Name, l)
			}
		}
	}
}
