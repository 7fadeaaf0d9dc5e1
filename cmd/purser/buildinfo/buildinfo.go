// Package buildinfo is the version and the revision of this program, as the build stamps them.
package buildinfo

import "runtime/debug"

// Version is the release. `make release VERSION=…` replaces it.
var Version = "0.1.0"

// Stamped is the revision that the Makefile and the Dockerfile stamp: the commit, followed by "+"
// when the tree had changes or new files.
var Stamped string

// Revision returns the commit that was built, "unknown" when the build does not know it.
func Revision() string {
	if Stamped != "" {
		return Stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// Build returns the version and the revision, with a space between them.
func Build() string { return Version + " " + Revision() }
