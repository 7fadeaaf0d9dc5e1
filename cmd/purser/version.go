package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/alecthomas/kong"

	"purser/cmd/purser/buildinfo"
)

// versionCommand prints the version and the build.
type versionCommand struct{}

// showVersion is the flag --version, which prints what versionCommand prints and ends the program.
type showVersion bool

// BeforeReset runs before kong asks for a command: it prints the version and exits with 0. It fails
// only when the output does.
func (showVersion) BeforeReset(app *kong.Kong) error {
	if err := new(versionCommand).Run(app.Stdout); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

// Run prints the version, the commit and the version of Go in one line. It fails only when the
// output does.
func (*versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintln(out, "purser", buildinfo.Build(), runtime.Version())
	return err
}
