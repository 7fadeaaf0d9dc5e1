package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

// Version is the release, which `make release VERSION=…` stamps. The build's revision goes with it
// when the build knows one.
var Version = "0.1.0"

// built is the revision that the Makefile and the Dockerfile stamp: the commit, with "+" behind it when the tree, new files too,
// differed from it.
var built string

// VersionCmd prints what is running.
type VersionCmd struct{}

// showVersion is the flag --version, which prints what VersionCmd prints and ends the program.
type showVersion bool

// BeforeReset runs before kong asks for a command.
func (showVersion) BeforeReset(app *kong.Kong) error {
	if err := new(VersionCmd).Run(app.Stdout); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

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
