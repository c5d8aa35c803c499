// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRecorded: the recorded scenarios tell what happens: the same verdict, and the same
// sentences in the same order, with the same tokens. Instants may differ, as a change of the
// client may draw other pauses. With PAWL_UPDATE=1 it records them anew.
func TestRecorded(t *testing.T) {
	for _, s := range Scenarios() {
		for _, safe := range []bool{true, false} {
			h := Run(bubble(t), s.plan(safe))
			if os.Getenv("PAWL_UPDATE") != "" {
				var lines bytes.Buffer
				if err := h.write(&lines); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(s.recording(safe), lines.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			then, now := told(s.Recorded(safe)), told(s.view(h, safe))
			if now != then {
				t.Errorf("%s is not what happens: record it anew with PAWL_UPDATE=1 go test -run TestRecorded ./lab/sim, and draw the pictures of it: see TestSimPictures\nrecorded:\n%s\nnow:\n%s",
					s.recording(safe), then, now)
			}
		}
	}
}

var length = regexp.MustCompile(`[0-9.]+ (s|ms|µs)\b`)

// told returns the verdict and the story, without instants and lengths of time.
func told(v *View) string {
	lines := []string{v.Verdict}
	for _, s := range v.Story {
		lines = append(lines, s.Text)
	}
	return length.ReplaceAllString(strings.Join(lines, "\n"), "some time")
}

// TestSeed shows what the plan of a seed comes to:
// SIM_SEED=7 go test -v -run TestSeed ./lab/sim. With SIM_UNSAFE=1 nodes grant at once after they
// have lost their data; SIM_SVG=FILE writes a picture.
func TestSeed(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SIM_SEED"), 10, 64)
	plan := Draw(seed)
	plan.Off.Quarantine = os.Getenv("SIM_UNSAFE") != ""
	h := Run(bubble(t), plan)
	if len(h.Violations) > 0 && !plan.Off.Quarantine {
		t.Error(h.Violations[0])
	}
	v := NewView(h)
	v.Title = fmt.Sprintf("Seed %d: %d nodes, %d clients, leases of %v", seed, plan.Nodes, len(plan.Clients), plan.TTL)
	if plan.Off.Quarantine {
		v.Note = "Switched off: the protection that a node that has lost its data waits before it grants"
	}
	var text, picture bytes.Buffer
	if err := v.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if err := v.WriteSVG(&picture); err != nil {
		t.Fatal(err)
	}
	if file := os.Getenv("SIM_SVG"); file != "" {
		if err := os.WriteFile(file, picture.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
