package actors_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// parallelRuns is the number of model runs at the same time, whatever the number of processors.
const parallelRuns = 4

// TestMain reduces the model runs in short mode (make race): the race detector makes each ten times
// as slow.
func TestMain(m *testing.M) {
	flag.Parse()
	setFlag("test.parallel", strconv.Itoa(parallelRuns))
	if testing.Short() {
		setFlag("rapid.checks", "6")
	}
	os.Exit(m.Run())
}

func setFlag(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
