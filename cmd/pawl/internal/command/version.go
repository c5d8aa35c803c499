// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// versionJSON is the output of version --json.
type versionJSON struct {
	Schema   int    `json:"schema"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from changed sources
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func versionCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Args:    cli.Args(0, 0, "try: pawl version"),
		PreRunE: cli.NoStore,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			return a.Print(v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "pawl %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
				return err
			})
		},
	}
	a.JSONFlag(cmd)
	return cmd
}

// released is the version of a release. The build sets it with -ldflags -X.
var released string

func version() versionJSON {
	v := versionJSON{Schema: report.Schema, Version: cmp.Or(released, "(devel)"), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(released, info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
