package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is the release; the build's revision goes with it when the build knows one.
const Version = "0.1.0"

// built is the revision that the Makefile and the Dockerfile stamp: the commit, with "+" behind it when the tree, new files too,
// differed from it.
var built string

// VersionCmd prints what is running.
type VersionCmd struct{}

// Run prints the version in one line.
func (*VersionCmd) Run(out io.Writer) error {
	words := []string{"purser", Version}
	if r := revision(); r != "" {
		words = append(words, r)
	}
	_, err := fmt.Fprintln(out, strings.Join(append(words, runtime.Version()), " "))
	return err
}

// revision is the commit that was built, "" when the build does not know.
func revision() string {
	if built != "" {
		return built
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
