// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var semver = regexp.MustCompile(`^v[01]\.\d+\.\d+(-[0-9a-z.]+)?$`)

// release commits a version, and tags it for every published module. It pushes nothing.
func release(root, version string) error {
	if !semver.MatchString(version) {
		return fmt.Errorf("%q is no version like v0.1.0; from v2 on the paths of the modules must change", version)
	}
	t, err := load(root)
	if err != nil {
		return err
	}
	if err := t.ready(version); err != nil {
		return err
	}
	if err := t.shows("make", "test"); err != nil {
		return err
	}
	if err := t.prepare(version); err != nil {
		return err
	}
	// prepare has changed the versions in the files, so they have to be checked again.
	if err := t.shows("make", "tidy", "release-check"); err != nil {
		return err
	}
	if err := t.shows("git", "commit", "--quiet", "--all", "--message", "Release "+version); err != nil {
		return err
	}
	tags := t.tags(version)
	for _, tag := range tags {
		if _, err := output(root, "git", "tag", "--annotate", "--message", "pawl "+version, tag); err != nil {
			return err
		}
	}
	fmt.Printf("%s is committed and tagged. Nobody has it yet; to publish it:\n\n\tgit push --atomic origin HEAD %s\n", version, strings.Join(tags, " "))
	return nil
}

// ready returns an error if this tree cannot be released. release calls it before it changes anything.
func (t *tree) ready(version string) error {
	if changed, err := output(t.root, "git", "status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		return fmt.Errorf("there are changes that are not committed:\n%s", changed)
	}
	have, err := output(t.root, "git", "tag")
	if err != nil {
		return err
	}
	for _, tag := range t.tags(version) {
		if slices.Contains(strings.Split(have, "\n"), tag) {
			return fmt.Errorf("there is a tag %s already; what is published cannot be changed", tag)
		}
	}
	return nil
}

// prepare writes the version into every go.mod, go.work and the changelog.
func (t *tree) prepare(version string) error {
	files, err := output(t.root, "git", "ls-files", "go.work", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	for file := range strings.FieldsSeq(files) {
		err := rewrite(filepath.Join(t.root, file), func(text string) (string, error) { return t.atVersion(text, version), nil })
		if err != nil {
			return err
		}
	}
	return rewrite(filepath.Join(t.root, "CHANGELOG.md"), func(text string) (string, error) {
		return closed(text, version, time.Now().UTC().Format(time.DateOnly))
	})
}

// shows runs a command and shows its output.
func (t *tree) shows(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

func rewrite(name string, edit func(string) (string, error)) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := edit(string(old))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// tags returns the tags of a version: for each module, its folder and the version.
func (t *tree) tags(version string) (tags []string) {
	for _, m := range t.modules {
		tags = append(tags, path.Join(m.dir, version))
	}
	return tags
}

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
