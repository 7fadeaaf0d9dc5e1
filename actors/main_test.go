package actors_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain shortens the random lives in the short form (make race): the race detector makes each ten times as long.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("rapid.checks", "6"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
