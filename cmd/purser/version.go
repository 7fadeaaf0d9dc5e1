package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

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

// Run prints the version in one line. It fails only when the output does.
func (*versionCommand) Run(out io.Writer) error {
	words := []string{"purser", buildinfo.Version}
	if r := buildinfo.Revision(); r != "" {
		words = append(words, r)
	}
	_, err := fmt.Fprintln(out, strings.Join(append(words, runtime.Version()), " "))
	return err
}
