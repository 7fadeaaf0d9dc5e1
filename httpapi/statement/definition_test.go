package statement

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rule is an element of camt.053.001.08 in testdata/definition.txt, in the part that a statement
// uses: its occurrence, and its children in order or the form of its text. It is a second reader
// that is independent of the writer.
type rule struct {
	name     string
	least    int
	many     bool
	choice   bool
	children []*rule
	what     string // the form's name
	form     *regexp.Regexp
	currency bool
}

// readDefinition reads lines with two spaces per depth, a name, an occurrence (1, ?, + or *), and
// then for a leaf the form of its text, or "choice" for an element with one of its children.
func readDefinition(t *testing.T) *rule {
	t.Helper()
	text, err := os.ReadFile("testdata/definition.txt")
	require.NoError(t, err)
	root := &rule{}
	open := []*rule{root}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		fields := strings.Fields(line)
		r := &rule{name: fields[0], many: strings.Contains("+*", fields[1])}
		if strings.Contains("1+", fields[1]) {
			r.least = 1
		}
		if len(fields) > 2 {
			r.describe(t, fields[2])
		}
		parent := open[depth]
		parent.children = append(parent.children, r)
		open = append(open[:depth+1], r)
	}
	return root
}

// forms holds the simple types of the definition.
var forms = map[string]string{
	"DateTime":  `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`,
	"Amount":    `\d{1,16}\.\d{2}`, // at most 18 digits, not negative
	"Decimal":   `-?\d{1,16}\.\d{2}`,
	"Magnitude": `\d{1,16}\.\d{2}`,
	"Direction": `CRDT|DBIT`,
	"Currency":  `[A-Z]{3}`,
	"Count":     `\d{1,15}`,
}

func (r *rule) describe(t *testing.T, what string) {
	t.Helper()
	if what == "choice" {
		r.choice = true
		return
	}
	form, known := forms[what]
	if most, isText := strings.CutPrefix(what, "Text"); isText {
		n, err := strconv.Atoi(most)
		require.NoError(t, err)
		form, known = fmt.Sprintf(`(?s).{1,%d}`, n), true
	}
	require.True(t, known, what)
	r.what = what
	r.form = regexp.MustCompile(`^(?:` + form + `)$`)
	r.currency = what == "Amount"
}

// judge reports where a message departs from the definition.
func (r *rule) judge(text string) error {
	decoder := xml.NewDecoder(strings.NewReader(text))
	if err := r.inside(decoder, "", nil); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// inside reads the content of an element up to its end.
func (r *rule) inside(decoder *xml.Decoder, path string, attributes []xml.Attr) error {
	next, seen, body := 0, 0, ""
	for {
		token, err := decoder.Token()
		if err != nil {
			if errors.Is(err, io.EOF) && path == "" {
				return r.ended(path, next, seen, "", err)
			}
			return err
		}
		switch token := token.(type) {
		case xml.CharData:
			body += string(token)
		case xml.EndElement:
			if r.currency && (len(attributes) != 1 || attributes[0].Name.Local != "Ccy" ||
				len(attributes[0].Value) != 3) {
				return fmt.Errorf("%s: Ccy", path)
			}
			return r.ended(path, next, seen, body, nil)
		case xml.StartElement:
			if token.Name.Space != namespaceOfMessage {
				return fmt.Errorf("%s/%s: namespace %q", path, token.Name.Local, token.Name.Space)
			}
			if next, seen, err = r.place(path, token.Name.Local, next, seen); err != nil {
				return err
			}
			if err := r.children[next].inside(decoder, path+"/"+token.Name.Local, token.Attr); err != nil {
				return err
			}
		}
	}
}

const namespaceOfMessage = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"

// place finds the child that an element matches: the last one again, or one after it.
func (r *rule) place(path, name string, next, seen int) (int, int, error) {
	for i := next; i < len(r.children); i++ {
		child := r.children[i]
		count := 0
		if i == next {
			count = seen
		}
		switch {
		case child.name == name && count > 0 && !child.many:
			return 0, 0, fmt.Errorf("%s/%s: twice", path, name)
		case child.name == name && r.choice && i != next && seen > 0:
			return 0, 0, fmt.Errorf("%s/%s: one choice too many", path, name)
		case child.name == name:
			return i, count + 1, nil
		case count < child.least && !r.choice:
			return 0, 0, fmt.Errorf("%s/%s: missing before %s", path, child.name, name)
		}
	}
	return 0, 0, fmt.Errorf("%s/%s: not here", path, name)
}

// ended checks an element at its end.
func (r *rule) ended(path string, next, seen int, body string, end error) error {
	if r.form != nil && !r.form.MatchString(body) {
		return fmt.Errorf("%s: %q", path, body)
	}
	if r.choice && seen == 0 {
		return fmt.Errorf("%s: nothing chosen", path)
	}
	for i := next; i < len(r.children) && !r.choice; i++ {
		if (i > next || seen == 0) && r.children[i].least > 0 {
			return fmt.Errorf("%s/%s: missing", path, r.children[i].name)
		}
	}
	return end
}
