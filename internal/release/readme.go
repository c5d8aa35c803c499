// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

func hasReadme(t *tree) bool { return exists(filepath.Join(t.root, "README.md")) }

// readme follows README.md in an empty folder: go mod init, go get, and go vet for its programs. A
// test of the command runs the program with a Redis server.
func (t *tree) readme(in *folder) error {
	text, err := os.ReadFile(filepath.Join(t.root, "README.md"))
	if err != nil {
		return err
	}
	blocks := goBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		return fmt.Errorf("README.md has no Go")
	}
	get := regexp.MustCompile(`(?m)^go get (` + regexp.QuoteMeta(t.path) + `[\w/]*)`).FindStringSubmatch(string(text))
	if get == nil {
		return fmt.Errorf("README.md does not say \"go get\" of a module of %s", t.path)
	}
	for i, block := range blocks {
		if err := in.write(fmt.Sprintf("p%d/main.go", i), block[1]); err != nil {
			return err
		}
	}
	for _, args := range []string{"mod init example.com/first", "get " + get[1], "mod tidy"} {
		if _, err := in.goes(strings.Fields(args)...); err != nil {
			return err
		}
	}
	for i := range blocks {
		if _, err := in.goes("vet", fmt.Sprintf("./p%d", i)); err != nil {
			return fmt.Errorf("README's program: %w", err)
		}
	}
	return nil
}
