// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestSBOM(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	if err := sbom(binary, &w); err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal([]byte(w.String()), &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || len(b.Components) == 0 || !strings.HasPrefix(b.Components[0].PURL, "pkg:golang/std@go1.") ||
		!strings.HasPrefix(b.Metadata.Component.PURL, "pkg:golang/github.com/pawl-go/pawl@") {
		t.Errorf("got\n%s", w.String())
	}
	if err := sbom("sbom_test.go", &w); err == nil {
		t.Error("a text has a list of modules")
	}
}
