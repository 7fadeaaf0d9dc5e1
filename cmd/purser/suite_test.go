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

// responseJudge validates every REST answer of the suite against the OpenAPI description: answers
// of servers in this process and in processes of their own, to tests, the demo and the sandbox
// bank. TestMain reads the description, and a password worker of the test binary, which a sign-up
// waits for, does not: under the race detector it takes seconds.
var responseJudge *openapitest.Judge

func newResponseJudge() *openapitest.Judge {
	description, err := openapitest.Load()
	if err != nil {
		panic("the OpenAPI description cannot be read: " + err.Error())
	}
	return openapitest.NewJudge(description)
}

// suiteLog collects the logs of all processes and, at the level debug, of all servers in this
// process that have no log of their own. TestMain searches it for secrets.
var suiteLog = &logBuffer{}

func debugLogger() *slog.Logger {
	return settings.NewLogger(suiteLog, settings.Config{LogLevel: slog.LevelDebug, LogFormat: settings.LogJSON})
}

// secretPattern matches secrets and personal data, which no log may hold. The routes and events of
// passwords are no passwords.
var secretPattern = regexp.MustCompile(`(apk|ses|ctok|reset|invite)_[0-9a-zA-Z]{8,}|[\w.+-]+@[\w-]+\.\w+|\$argon2id|` +
	`[Pp]assword["\\]*[:=]|Bearer |Storm`)

// parallelTests is how many parallel tests run at once when -parallel is not set. Two processors
// run four, because a test mostly waits for disks, processes and partners' reports.
const parallelTests = "4"

// suiteDir is a temporary directory of the whole suite. TestMain removes it.
var suiteDir string

// TestMain runs the suite. It fails the suite for a REST answer that the OpenAPI description does
// not allow and for a log line that holds a secret or personal data.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, passwordWorker) { // the server under test is this binary, and so is its worker
		main()
		return
	}
	if i := slices.Index(os.Args, attackersArgument); i > 0 {
		runAttackers(os.Args[i+1:])
		return
	}
	if err := os.Setenv("PURSER_SLACK", mostSlack); err != nil { // of the commands that tests run
		panic(err)
	}
	responseJudge = newResponseJudge()
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
		fmt.Println("FAIL: an answer that the OpenAPI description does not allow:", complaint)
		status = max(status, 1)
	}
	for _, secret := range secretPattern.FindAllString(suiteLog.String(), -1) {
		fmt.Printf("FAIL: the log holds %q\n", secret)
		status = max(status, 1)
	}
	if testing.Verbose() {
		fmt.Printf("%d answers judged, %d bytes of log searched\n", judged, len(suiteLog.String()))
	}
	os.Exit(status)
}
