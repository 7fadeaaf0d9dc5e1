package actors_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// atOnce is how many random lives run at the same time, whatever the number of processors.
const atOnce = 4

// TestMain shortens the random lives in the short form (make race): the race detector makes each ten times as long.
func TestMain(m *testing.M) {
	flag.Parse()
	set("test.parallel", strconv.Itoa(atOnce))
	if testing.Short() {
		set("rapid.checks", "6")
	}
	os.Exit(m.Run())
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
