package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"purser/cmd/purser/settings"
	"purser/httpapi/openapi/openapitest"
)

// compareRules holds every REST answer of the suite against the description: those of servers in this process and of servers that are
// killed, asked by tests, by the demo and by the sandbox bank.
var responseJudge = newResponseJudge()

func newResponseJudge() *openapitest.Judge {
	description, err := openapitest.Load()
	if err != nil {
		panic("the description cannot be read: " + err.Error())
	}
	return openapitest.NewJudge(description)
}

// suiteLog is the log of all servers of the suite that have no other, at the most talkative level, and of all processes.
var suiteLog = &logBuffer{}

func debugLogger() *slog.Logger {
	return settings.NewLogger(suiteLog, settings.Config{LogLevel: slog.LevelDebug, LogFormat: settings.LogJSON})
}

// secretPattern are secrets and personal data by their look.
var secretPattern = regexp.MustCompile(`(apk|ses|ctok)_[0-9a-zA-Z]{8,}|[\w.+-]+@[\w-]+\.\w+|\$argon2id|[Pp]assword|Bearer |Storm`)

// parallelTests is how many parallel tests run at once when -parallel is not set. Two processors
// run four, because a test mostly waits for disks, processes and partners' reports.
const parallelTests = "4"

// suiteDir is a directory of the whole suite.
var suiteDir string

// TestMain judges the suite as a whole: its answers and its logs.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, passwordWorker) { // the server under test is this binary, and so is its worker
		main()
		return
	}
	if i := slices.Index(os.Args, attackersArgument); i > 0 {
		runAttackers(os.Args[i+1:])
		return
	}
	http.DefaultTransport = responseJudge.Through(http.DefaultTransport)
	err := flag.Set("test.parallel", parallelTests)
	if err != nil {
		panic(err)
	}
	if suiteDir, err = os.MkdirTemp("", "purser-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	if err := os.RemoveAll(suiteDir); err != nil {
		fmt.Println("FAIL:", err)
		status = max(status, 1)
	}
	judged, complaints := responseJudge.Verdict()
	for _, complaint := range complaints {
		fmt.Println("FAIL: an answer that is not described:", complaint)
		status = max(status, 1)
	}
	for _, said := range secretPattern.FindAllString(suiteLog.String(), -1) {
		fmt.Printf("FAIL: the log holds %q\n", said)
		status = max(status, 1)
	}
	if testing.Verbose() {
		fmt.Printf("%d answers judged, %d bytes of log searched\n", judged, len(suiteLog.String()))
	}
	os.Exit(status)
}
