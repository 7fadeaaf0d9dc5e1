package reference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/format"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"purser/persistence/ident"
)

// Sample is a whole program that makes one request and prints the answer.
type Sample struct {
	Language string // curl, Python, TypeScript or Go
	Class    string // the language as a code block names it
	Code     string
}

// host is where a description's requests go: the environment's variables for the address and the
// credentials.
type host struct {
	address string
	headers map[string][2]string // by security scheme: the header, and its value with a variable
}

var (
	restHost = host{address: "PURSER_URL", headers: map[string][2]string{
		"apiKey":           {"Authorization", "Bearer $PURSER_KEY"},
		"session":          {"Cookie", "purser_session=$PURSER_SESSION"},
		"partnerSignature": {"partner-signature", "$PURSER_PARTNER_SIGNATURE"},
	}}
	networkHost = host{address: "PURSER_NETWORK_URL", headers: map[string][2]string{
		"networkSecret": {"Authorization", "Bearer $PURSER_NETWORK_SECRET"},
	}}
)

const (
	pythonVariable  = `os.environ["$1"]`
	goVariable      = `os.Getenv("$1")`
	workspaceHeader = "X-Workspace-Id"
	minSecret       = 26 // characters of an id or a secret behind its prefix
)

// variable is a name of the environment in a sample's address, header or body.
var variable = regexp.MustCompile(`\$(PURSER_[A-Z_]+)`)

// quotedVariable is a text in JSON that is a variable.
var quotedVariable = regexp.MustCompile(`"\$(PURSER_[A-Z_]+)"`)

// secrets are the variables of what an example shows with a prefix and what x-ids does not name.
var secrets = map[string]string{ident.Agent: "$PURSER_AGENT_ID", ident.Checkout: "$PURSER_CHECKOUT_SESSION_ID",
	ident.CardToken: "$PURSER_CARD_TOKEN", ident.InviteSecret: "$PURSER_INVITATION_TOKEN",
	ident.ResetSecret: "$PURSER_RESET_TOKEN", ident.EmailSecret: "$PURSER_EMAIL_TOKEN",
	ident.ChallengeSecret: "$PURSER_SIGN_IN_CHALLENGE"}

// recordVariable returns the variable with the id of a record that x-ids names for a place, such as
// $PURSER_CARD_ID, or "". The caller of a route chooses the ids of messages.
func recordVariable(operation map[string]any, place string) string {
	kind := asText(asObject(operation["x-ids"])[place])
	if kind == "" || kind == "none" || kind == "message" {
		return ""
	}
	return "$PURSER_" + strings.ToUpper(kind) + "_ID"
}

// secretVariable returns the variable for an id or a secret of an example, else the example.
func secretVariable(example string) string {
	prefix, rest, _ := strings.Cut(example, "_")
	if len(rest) < minSecret {
		return example
	}
	return cmp.Or(secrets[prefix], example)
}

// request is what the samples of an operation send. The path has its parameters filled in.
type request struct {
	method, path string
	query        url.Values
	headers      [][2]string
	security     []string
	host         host
	contentType  string
	body         any // nil without one
}

// exampleOf returns a value for a parameter: the variable of its record, its example, or the first
// value that is allowed.
func (d *description) exampleOf(parameter, operation map[string]any) string {
	if name := recordVariable(operation, asText(parameter["in"])+"."+asText(parameter["name"])); name != "" {
		return name
	}
	if parameter["name"] == "Idempotency-Key" {
		return keyOf(asText(operation["operationId"]))
	}
	if example := parameter["example"]; example != nil {
		return secretVariable(plainNumber(example))
	}
	values := asList(d.resolveRef(asObject(parameter["schema"]))["enum"])
	if len(values) == 0 {
		return ""
	}
	return plainNumber(values[0])
}

// bodyOf returns the example of a body with variables in place of ids and secrets.
func bodyOf(example any, operation map[string]any, place string) any {
	switch v := example.(type) {
	case string:
		return cmp.Or(recordVariable(operation, place), secretVariable(v))
	case []any:
		var list []any
		for _, item := range v {
			list = append(list, bodyOf(item, operation, place+"[]"))
		}
		return list
	case map[string]any:
		body := map[string]any{}
		for name, member := range v {
			body[name] = bodyOf(member, operation, place+"."+name)
		}
		return body
	}
	return example
}

// addParameter puts a parameter into the request. Of those that may be left out, the idempotency
// key is sent, and the workspace of a session.
func (r *request) addParameter(parameter map[string]any, value string) {
	name := asText(parameter["name"])
	required, _ := parameter["required"].(bool)
	switch asText(parameter["in"]) {
	case "path":
		r.path = strings.ReplaceAll(r.path, "{"+name+"}", url.PathEscape(value))
	case "query":
		if required {
			if r.query == nil {
				r.query = url.Values{}
			}
			r.query.Set(name, value)
		}
	case "header":
		ofSession := name == workspaceHeader && slices.Equal(r.security, []string{"session"})
		if required || name == "Idempotency-Key" || ofSession {
			r.headers = append(r.headers, [2]string{name, value})
		}
	}
}

// writeSamples writes the request in every language. It fails only for credentials that no sample
// has.
func (r *request) writeSamples() ([]Sample, error) {
	if len(r.query) > 0 {
		r.path += "?" + strings.ReplaceAll(r.query.Encode(), "%24PURSER_", "$PURSER_")
	}
	if len(r.security) > 0 {
		header, ok := r.host.headers[r.security[0]]
		if !ok {
			return nil, fmt.Errorf("no sample has the credentials %q", r.security[0])
		}
		r.headers = append([][2]string{header}, r.headers...)
	}
	if r.body != nil {
		r.headers = append(r.headers, [2]string{"Content-Type", r.contentType})
	}
	program, err := format.Source([]byte(r.goSample()))
	if err != nil {
		return nil, err
	}
	samples := []Sample{{"curl", "curl", r.curlSample()}, {"Python", "python", r.pythonSample()},
		{"TypeScript", "typescript", r.typeScriptSample()}, {"Go", "go", string(program)}}
	for i, sample := range samples {
		for _, h := range r.headers {
			if h[0] == "Idempotency-Key" {
				samples[i].Code = strings.ReplaceAll(sample.Code, h[1], keyOf(h[1]+sample.Language))
			}
		}
	}
	return samples, nil
}

// keyOf returns an idempotency key of an operation or of its sample. The bodies of an operation's
// samples differ in their spaces, so each has a key of its own.
func keyOf(name string) string { return uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String() }

// curlSample quotes with double quotes where a variable is, else with single ones.
func (r *request) curlSample() string {
	var b strings.Builder
	b.WriteString("curl -sS")
	if r.method != "GET" && (r.method != "POST" || r.body == nil) {
		b.WriteString(" -X " + r.method)
	}
	fmt.Fprintf(&b, ` "$%s%s"`, r.host.address, r.path)
	for _, h := range r.headers {
		fmt.Fprintf(&b, " \\\n  -H \"%s: %s\"", h[0], h[1])
	}
	if r.body != nil {
		body := strings.ReplaceAll(indentedJSON(r.body, "  "), "'", `'\''`)
		body = variable.ReplaceAllString(body, `'"$0"'`)
		fmt.Fprintf(&b, " \\\n  -d '%s'", body)
	}
	return b.String() + "\n"
}

// joinVariables writes a text as an expression: quoted parts and the values of variables, joined by
// +. value has $1 for the variable's name.
func joinVariables(text, value string) string {
	joined := variable.ReplaceAllString(strconv.Quote(text), `" + `+value+` + "`)
	return strings.TrimSuffix(strings.TrimPrefix(joined, `"" + `), ` + ""`)
}

// pythonSample returns the request as a Python program (requests) that reads the address and the
// key from the environment.
func (r *request) pythonSample() string {
	var b strings.Builder
	b.WriteString("import os\n\nimport requests\n\n")
	fmt.Fprintf(&b, "answer = requests.request(\n    %q,\n    %s,\n", r.method,
		joinVariables("$"+r.host.address+r.path, pythonVariable))
	if len(r.headers) > 0 {
		b.WriteString("    headers={\n")
		for _, h := range r.headers {
			fmt.Fprintf(&b, "        %q: %s,\n", h[0], joinVariables(h[1], pythonVariable))
		}
		b.WriteString("    },\n")
	}
	if r.body != nil {
		fmt.Fprintf(&b, "    json=%s,\n", pythonLiteral(r.body, "    "))
	}
	b.WriteString("    timeout=30,\n)\nprint(answer.status_code)\nprint(answer.text)\n")
	return b.String()
}

// pythonLiteral writes a JSON value as Python does.
func pythonLiteral(value any, indent string) string {
	switch v := value.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case []any:
		return formatList(v, indent, pythonLiteral)
	case map[string]any:
		return formatObject(v, indent, pythonLiteral)
	case string:
		return joinVariables(v, pythonVariable)
	}
	return compactJSON(value)
}

// typeScriptSample returns the request as a TypeScript program (fetch) that reads the address and
// the key from the environment.
func (r *request) typeScriptSample() string {
	var b strings.Builder
	quote := func(text string) string {
		if !variable.MatchString(text) {
			return strconv.Quote(text)
		}
		return "`" + variable.ReplaceAllString(text, "$${process.env.$1}") + "`"
	}
	fmt.Fprintf(&b, "const answer = await fetch(%s, {\n  method: %q,\n", quote("$"+r.host.address+r.path), r.method)
	if len(r.headers) > 0 {
		b.WriteString("  headers: {\n")
		for _, h := range r.headers {
			fmt.Fprintf(&b, "    %q: %s,\n", h[0], quote(h[1]))
		}
		b.WriteString("  },\n")
	}
	if r.body != nil {
		body := quotedVariable.ReplaceAllString(indentedJSON(r.body, "  "), "process.env.$1")
		fmt.Fprintf(&b, "  body: JSON.stringify(%s),\n", body)
	}
	b.WriteString("});\nconsole.log(answer.status);\nconsole.log(await answer.text());\n\nexport {};\n")
	return b.String()
}

// goSample writes the body as a raw string.
func (r *request) goSample() string {
	imports := []string{"fmt", "io", "log", "net/http", "os"}
	body := "nil"
	if r.body != nil {
		imports = append(imports, "strings")
		body = "strings.NewReader(" + rawString(indentedJSON(r.body, "\t")) + ")"
	}
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n")
	for _, name := range imports {
		fmt.Fprintf(&b, "\t%q\n", name)
	}
	b.WriteString(")\n\nfunc main() {\n")
	address := joinVariables("$"+r.host.address+r.path, goVariable)
	fmt.Fprintf(&b, "\treq, err := http.NewRequest(%q, %s, %s)\n", r.method, address, body)
	b.WriteString("\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n")
	for _, h := range r.headers {
		fmt.Fprintf(&b, "\treq.Header.Set(%q, %s)\n", h[0], joinVariables(h[1], goVariable))
	}
	b.WriteString("\tresp, err := http.DefaultClient.Do(req)\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tdefer resp.Body.Close()\n\ttext, err := io.ReadAll(resp.Body)\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tfmt.Println(resp.StatusCode)\n\tfmt.Println(string(text))\n}\n")
	return b.String()
}

// rawString quotes a text with backquotes, or with double quotes when it has a backquote, and joins
// it with its variables.
func rawString(s string) string {
	if strings.Contains(s, "`") {
		return joinVariables(s, goVariable)
	}
	return "`" + variable.ReplaceAllString(s, "` + "+goVariable+" + `") + "`"
}

// maxLine is how many characters an object or a list takes on one line.
const maxLine = 60

// indentedJSON writes a value as JSON. Short objects and lists take one line; indent begins every
// line but the first.
func indentedJSON(value any, indent string) string {
	switch v := value.(type) {
	case []any:
		return formatList(v, indent, indentedJSON)
	case map[string]any:
		return formatObject(v, indent, indentedJSON)
	}
	return compactJSON(value)
}

func formatList(values []any, indent string, write func(any, string) string) string {
	parts := make([]string, len(values))
	for i, value := range values {
		parts[i] = write(value, indent+"  ")
	}
	return joinParts("[", parts, "]", indent)
}

func formatObject(values map[string]any, indent string, write func(any, string) string) string {
	var parts []string
	for _, name := range sortedKeys(values) {
		parts = append(parts, compactJSON(name)+": "+write(values[name], indent+"  "))
	}
	return joinParts("{", parts, "}", indent)
}

// joinParts joins parts on one line when they are short, else on a line each.
func joinParts(open string, parts []string, end, indent string) string {
	joined := strings.Join(parts, ", ")
	if len(joined) <= maxLine && !strings.Contains(joined, "\n") {
		return open + joined + end
	}
	return open + "\n" + indent + "  " + strings.Join(parts, ",\n"+indent+"  ") + "\n" + indent + end
}

// compactJSON writes a scalar as JSON, without escapes for HTML.
func compactJSON(value any) string {
	if n, ok := value.(float64); ok {
		return plainNumber(n)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "null" // a value of parsed JSON always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
