package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Version is the release; the build's revision goes with it when the build knows one.
const Version = "0.1.0"

// VersionCmd prints what is running.
type VersionCmd struct{}

// Run prints the version in one line.
func (*VersionCmd) Run(out io.Writer) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(out, "purser %s%s %s\n", Version, revision, runtime.Version())
	return err
}
