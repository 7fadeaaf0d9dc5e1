package actors_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// parallelRuns is the number of model runs at the same time, whatever the number of processors.
const parallelRuns = 4

// TestMain sets how many tests run at the same time.
func TestMain(m *testing.M) {
	flag.Parse()
	setFlag("test.parallel", strconv.Itoa(parallelRuns))
	os.Exit(m.Run())
}

// atFullLength returns full when PURSER_TEST_FULL is set, else short.
func atFullLength(short, full int) int {
	if os.Getenv("PURSER_TEST_FULL") != "" {
		return full
	}
	return short
}

func setFlag(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
