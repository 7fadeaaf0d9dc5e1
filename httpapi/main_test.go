package httpapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// logAuditor records all log output of the suite, and all secrets and personal data that the tests
// sent or received.
type logAuditor struct {
	mu      sync.Mutex
	logged  strings.Builder
	secrets map[string]string // secret to its description
}

// suiteLog collects the whole suite, so all tests share it.
var suiteLog = &logAuditor{secrets: map[string]string{testSecret: "the partner's secret",
	testNetworkSecret: "the network's secret"}}

// Write implements io.Writer for the loggers.
func (s *logAuditor) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.Write(b)
}

func (s *logAuditor) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// personal lists the fields of requests and answers whose values must not be logged.
var personal = []string{"secret", "password", "email", "dateOfBirth", "phoneNumber", "firstName", "lastName",
	"displayName",
	"line1", "holderLabel", "city", "partnerCardToken", "privateKeyPem"}

// leastSecret is the length from which a value is searched: shorter ones occur in the log by
// chance.
const leastSecret = 6

// recordExchange records the secrets of a request and its answer.
func (s *logAuditor) recordExchange(who as, cookie string, documents ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addSecret("a cookie", cookie)
	s.addSecret("a session", strings.TrimPrefix(who["Cookie"], sessionCookie+"="))
	s.addSecret("a bearer token", strings.TrimPrefix(who["Authorization"], "Bearer "))
	s.addSecret("a signature", who["partner-signature"])
	for _, text := range documents {
		var document any
		if json.Unmarshal([]byte(text), &document) == nil {
			s.collectPersonal(document)
		}
	}
}

func (s *logAuditor) collectPersonal(document any) {
	switch v := document.(type) {
	case map[string]any:
		for name, value := range v {
			if text, ok := value.(string); ok && slices.Contains(personal, name) {
				s.addSecret(name, text)
			}
			s.collectPersonal(value)
		}
	case []any:
		for _, item := range v {
			s.collectPersonal(item)
		}
	}
}

func (s *logAuditor) addSecret(what, value string) {
	if len(value) >= leastSecret && strings.Trim(value, "a") != "" && strings.Trim(value, "~") != "" {
		s.secrets[value] = what
	}
}

// shapes matches secrets and personal data by their form, in case note missed them.
var shapes = regexp.MustCompile(`(apk|ses|sess)_[0-9a-z]{20,}|\$argon2id\$|[\w.+-]+@example\.com|ssnLast4|dateOfBirth|BEGIN PRIVATE KEY`)

// leaks lists the secrets and personal data in the log.
func (s *logAuditor) leaks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, found := s.logged.String(), shapes.FindAllString(s.logged.String(), -1)
	begins := map[string][]string{} // secrets by their first bytes: the log is read once
	for secret := range s.secrets {
		begins[secret[:leastSecret]] = append(begins[secret[:leastSecret]], secret)
	}
	for at := range max(len(text)-leastSecret+1, 0) {
		for _, secret := range begins[text[at:at+leastSecret]] {
			if strings.HasPrefix(text[at:], secret) {
				found = append(found, fmt.Sprintf("%s: %q", s.secrets[secret], secret))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// expectedLines lists texts that the log of a whole suite contains. It guards the search against an
// empty log.
var expectedLines = []string{"panic: a bug with a secret", "the disk says", "code=invalid_body", "code=invalid_query",
	"code=invalid_request", "code=unauthorized", "code=invalid_credentials", "code=signature_invalid",
	"code=outcome_unknown",
	"msg=\"internal fault\""}

// missingLines lists the texts of said that the log lacks.
func (s *logAuditor) missingLines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.logged.String()
	return slices.DeleteFunc(slices.Clone(expectedLines),
		func(line string) bool { return strings.Contains(text, line) })
}

// wholeSuite reports whether all tests run.
func wholeSuite() bool {
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// testsPerProcessor is the number of tests that run at once for each processor. Tests mostly wait:
// for relays, timers and deadlines of connections.
const testsPerProcessor = 4

// runInParallel sets the flag test.parallel to testsPerProcessor, unless the command line sets it.
func runInParallel() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(testsPerProcessor*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

// TestMain searches the log of the whole suite after its last test.
func TestMain(m *testing.M) {
	runInParallel()
	status := m.Run()
	if leaks := suiteLog.leaks(); len(leaks) > 0 {
		fmt.Printf("FAIL: the log holds %d secrets or personal data:\n%s\n", len(leaks),
			strings.Join(leaks[:min(len(leaks), 20)], "\n"))
		status = max(status, 1)
	}
	if wholeSuite() {
		for _, line := range suiteLog.missingLines() {
			fmt.Printf("FAIL: the log of the whole suite lacks %q\n", line)
			status = max(status, 1)
		}
	}
	if testing.Verbose() {
		fmt.Printf("%d bytes of log searched for %d values\n", suiteLog.logged.Len(), len(suiteLog.secrets))
	}
	os.Exit(status)
}

// note collects secrets, and leaks finds them in the log.
func TestLogAuditFindsLeaks(t *testing.T) {
	t.Parallel()
	s := &logAuditor{secrets: map[string]string{}}
	s.recordExchange(key("apk_of_a_test"), "cookie-value",
		`{"password":"my password","shipping":[{"line1":"1 Main Street"}]}`)
	if len(s.leaks()) != 0 {
		t.Fatal("an empty log leaks")
	}
	s.logger().Info("x", "token", "apk_of_a_test", "cookie", "cookie-value", "p", "my password", "a", "1 Main Street",
		"e", "ada@example.com")
	if got := s.leaks(); len(got) != 5 {
		t.Fatalf("found %q", got)
	}
}
