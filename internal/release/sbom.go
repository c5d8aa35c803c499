// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// These types are the part of CycloneDX that a list of Go modules needs.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   bomMeta     `json:"metadata"`
		Components []component `json:"components"`
	}
	bomMeta struct {
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
)

func writeSBOM(binary, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := sbom(binary, f); err != nil {
		return err
	}
	return f.Close()
}

// sbom writes the list of modules in a binary's build information.
func sbom(binary string, w io.Writer) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata.Component = part("application", info.Main.Path, info.Main.Version)
	b.Components = []component{part("library", "std", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace // list the replacement; our own modules are replaced by folders, which have no version
		}
		b.Components = append(b.Components, part("library", m.Path, m.Version))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

func part(kind, path, version string) component {
	return component{kind, path, version, fmt.Sprintf("pkg:golang/%s@%s", path, version)}
}
