// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// A minute is what README has to make somebody's first lock.
const firstMinute = time.Minute

func hasReadme(t *tree) bool { return exists(filepath.Join(t.root, "README.md")) }

// readme does what README says, from an empty folder: go mod init, go get, its program, run.
func (t *tree) readme(in *folder) error {
	text, err := os.ReadFile(filepath.Join(t.root, "README.md"))
	if err != nil {
		return err
	}
	begin := time.Now()
	blocks := goBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		return fmt.Errorf("README.md has no Go")
	}
	if get := "go get " + t.path; !strings.Contains(string(text), "\n"+get+"\n") {
		return fmt.Errorf("README.md does not say %q", get)
	}
	for i, block := range blocks {
		if err := in.write(fmt.Sprintf("p%d/main.go", i), block[1]); err != nil {
			return err
		}
	}
	for _, args := range []string{"mod init example.com/first", "get " + t.path, "mod tidy"} {
		if _, err := in.goes(strings.Fields(args)...); err != nil {
			return err
		}
	}
	for i := range blocks {
		said, err := in.goes("run", fmt.Sprintf("./p%d", i))
		if err != nil || !strings.HasPrefix(said, "only one of me at a time: ") {
			return fmt.Errorf("README's program says %q: %w", said, err)
		}
	}
	if took := time.Since(begin); took > firstMinute {
		return fmt.Errorf("a first lock took %v; README has a minute", took)
	}
	return nil
}
