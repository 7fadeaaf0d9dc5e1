package httpapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// secretary writes down all that the suite logs, and all that no log may hold: what the tests sent
// and were answered.
type secretary struct {
	mu      sync.Mutex
	logged  strings.Builder
	secrets map[string]string // and what each is
}

// diary is of the whole suite, which is why it is shared.
var diary = &secretary{secrets: map[string]string{testSecret: "the partner's secret",
	testNetworkSecret: "the network's secret"}}

// Write is io.Writer's, for the loggers.
func (s *secretary) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.Write(b)
}

func (s *secretary) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// personal are the fields, of requests and answers, whose values no log may hold.
var personal = []string{"secret", "password", "email", "dateOfBirth", "phoneNumber", "firstName", "lastName",
	"displayName",
	"line1", "holderLabel", "city", "partnerCardToken", "privateKeyPem"}

// leastSecret is how long a value must be to be looked for: a shorter one stands in any text by
// chance.
const leastSecret = 6

// note keeps what a request and its answer hold that no log may.
func (s *secretary) note(who as, cookie string, documents ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep("a cookie", cookie)
	s.keep("a session", strings.TrimPrefix(who["Cookie"], sessionCookie+"="))
	s.keep("a bearer token", strings.TrimPrefix(who["Authorization"], "Bearer "))
	s.keep("a signature", who["partner-signature"])
	for _, text := range documents {
		var document any
		if json.Unmarshal([]byte(text), &document) == nil {
			s.search(document)
		}
	}
}

func (s *secretary) search(document any) {
	switch v := document.(type) {
	case map[string]any:
		for name, value := range v {
			if text, ok := value.(string); ok && slices.Contains(personal, name) {
				s.keep(name, text)
			}
			s.search(value)
		}
	case []any:
		for _, item := range v {
			s.search(item)
		}
	}
}

func (s *secretary) keep(what, value string) {
	if len(value) >= leastSecret && strings.Trim(value, "a") != "" && strings.Trim(value, "~") != "" {
		s.secrets[value] = what
	}
}

// shapes are secrets and personal data by their look, for what the tests do not know of.
var shapes = regexp.MustCompile(`(apk|ses|sess)_[0-9a-z]{20,}|\$argon2id\$|[\w.+-]+@example\.com|ssnLast4|dateOfBirth|BEGIN PRIVATE KEY`)

// leaks lists what the log holds and must not.
func (s *secretary) leaks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, found := s.logged.String(), shapes.FindAllString(s.logged.String(), -1)
	for secret, what := range s.secrets {
		if strings.Contains(text, secret) {
			found = append(found, fmt.Sprintf("%s: %q", what, secret))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// said is what a log of the whole suite holds: without it the search would have found nothing in
// nothing.
var said = []string{"panic: a bug with a secret", "the disk says", "code=invalid_body", "code=invalid_query",
	"code=invalid_request", "code=unauthorized", "code=invalid_credentials", "code=signature_invalid",
	"code=outcome_unknown",
	"msg=\"internal fault\""}

// unsaid lists what a log of the whole suite lacks.
func (s *secretary) unsaid() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.logged.String()
	return slices.DeleteFunc(slices.Clone(said), func(line string) bool { return strings.Contains(text, line) })
}

// wholeSuite tells whether no test was left out.
func wholeSuite() bool {
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// TestMain reads, after the whole suite, everything that was logged in it.
func TestMain(m *testing.M) {
	status := m.Run()
	if leaks := diary.leaks(); len(leaks) > 0 {
		fmt.Printf("FAIL: the log holds %d secrets or personal data:\n%s\n", len(leaks),
			strings.Join(leaks[:min(len(leaks), 20)], "\n"))
		status = max(status, 1)
	}
	if wholeSuite() {
		for _, line := range diary.unsaid() {
			fmt.Printf("FAIL: the log of the whole suite lacks %q\n", line)
			status = max(status, 1)
		}
	}
	if testing.Verbose() {
		fmt.Printf("%d bytes of log searched for %d values\n", diary.logged.Len(), len(diary.secrets))
	}
	os.Exit(status)
}

// The search finds what it looks for, and what it looks for is collected.
func TestTheSecretaryNotices(t *testing.T) {
	s := &secretary{secrets: map[string]string{}}
	s.note(key("apk_of_a_test"), "cookie-value", `{"password":"my password","shipping":[{"line1":"1 Main Street"}]}`)
	if len(s.leaks()) != 0 {
		t.Fatal("an empty log leaks")
	}
	s.logger().Info("x", "token", "apk_of_a_test", "cookie", "cookie-value", "p", "my password", "a", "1 Main Street",
		"e", "ada@example.com")
	if got := s.leaks(); len(got) != 5 {
		t.Fatalf("found %q", got)
	}
}
