package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"godwit/devices"
)

// Version is what this code is a release of, or goes towards; CHANGELOG.md says what
// is in it. ReleaseDate is when it was made one.
const (
	Version     = "0.1.0"
	ReleaseDate = "2026-11-22"
)

// versionInfo is the JSON form of godwit version.
type versionInfo struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"` // where it was built in a checkout
	Modified bool     `json:"modified"`         // the checkout had changes
	Go       string   `json:"go"`
	System   string   `json:"system"`
	Arch     string   `json:"arch"`
	CGO      bool     `json:"cgo"` // with real OpenCL devices
	Drivers  []string `json:"drivers"`
}

func versionOf() versionInfo {
	v := versionInfo{Version: Version, Go: runtime.Version(), System: runtime.GOOS, Arch: runtime.GOARCH, Drivers: devices.Drivers()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			case "CGO_ENABLED":
				v.CGO = s.Value == "1"
			}
		}
	}
	slices.Sort(v.Drivers)
	return v
}

// version is a line: the version, the commit and what it was built with.
func version() string {
	v := versionOf()
	text := v.Version
	if v.Commit != "" {
		text += " (" + v.Commit[:min(len(v.Commit), 12)]
		if v.Modified {
			text += ", changed"
		}
		text += ")"
	}
	return fmt.Sprintf("%s %s %s/%s", text, v.Go, v.System, v.Arch)
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which Godwit this is, and what it was built with",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), versionOf())
			}
			fmt.Fprintln(cmd.OutOrStdout(), "godwit", version())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
