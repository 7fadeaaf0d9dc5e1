//go:build !race

package main

// raceEnabled reports whether the race detector watches the tests.
const raceEnabled = false
