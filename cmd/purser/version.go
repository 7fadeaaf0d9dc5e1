package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/alecthomas/kong"

	"purser/cmd/purser/buildinfo"
)

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
	words := []string{"purser", buildinfo.Version}
	if r := buildinfo.Revision(); r != "" {
		words = append(words, r)
	}
	_, err := fmt.Fprintln(out, strings.Join(append(words, runtime.Version()), " "))
	return err
}
