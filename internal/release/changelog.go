// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

const unreleased = "## Unreleased\n"

// closed returns the changelog with the unreleased section moved under a new version.
func closed(text, version, date string) (string, error) {
	before, after, ok := strings.Cut(text, unreleased)
	if !ok {
		return "", fmt.Errorf("CHANGELOG.md has no line %q", strings.TrimSpace(unreleased))
	}
	if strings.Contains(text, "\n## "+version+" ") {
		return "", fmt.Errorf("CHANGELOG.md has %s already", version)
	}
	if body, _, _ := strings.Cut(after, "\n## "); strings.TrimSpace(body) == "" {
		return "", fmt.Errorf("CHANGELOG.md has nothing that is unreleased")
	}
	return before + unreleased + "\n## " + version + " - " + date + "\n" + after, nil
}

// section returns the section of the changelog about a version.
func section(text, version string) (string, error) {
	_, after, ok := strings.Cut(text, "\n## "+version+" ")
	if !ok {
		return "", fmt.Errorf("CHANGELOG.md has no %s", version)
	}
	_, after, _ = strings.Cut(after, "\n")
	body, _, _ := strings.Cut(after, "\n## ")
	return strings.TrimSpace(body) + "\n", nil
}
