package reference

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// sampleID ends the ids of samples: they look like ids, and no record has them.
const sampleID = "_01m7wd7tg0fk6t3h1v99wgrfte"

// prefixes are those of ids by the names that x-ids gives to kinds of records.
var prefixes = map[string]string{"agent": ident.Agent, "card": ident.Card, "checkout_session": ident.Checkout,
	"conversion": ident.Conversion, "counterparty": ident.Counterparty, "invitation": ident.Invitation,
	"key": ident.Key, "payout": ident.Payout, "ramp_order": ident.RampOrder, "ramp_session": ident.RampSession,
	"ramp_wallet": ident.RampWallet, "user": ident.User, "webhook_delivery": ident.Delivery,
	"webhook_endpoint": ident.Endpoint}

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

// exampleOf returns a value for a parameter: its example, the first value that is allowed, or an id
// of its kind.
func (d *description) exampleOf(parameter, operation map[string]any) string {
	if example := parameter["example"]; example != nil {
		return plainNumber(example)
	}
	schema := d.resolveRef(asObject(parameter["schema"]))
	if values := asList(schema["enum"]); len(values) > 0 {
		return plainNumber(values[0])
	}
	kind := asText(asObject(operation["x-ids"])[asText(parameter["in"])+"."+asText(parameter["name"])])
	if prefix, ok := prefixes[kind]; ok {
		return prefix + sampleID
	}
	return "id" + sampleID
}

// addParameter puts a parameter into the request. Of those that may be left out only the
// idempotency key is sent.
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
		if required || name == "Idempotency-Key" {
			r.headers = append(r.headers, [2]string{name, value})
		}
	}
}

// writeSamples writes the request in every language. It fails only for credentials that no sample
// has.
func (r *request) writeSamples() ([]Sample, error) {
	if len(r.query) > 0 {
		r.path += "?" + r.query.Encode()
	}
	if !slices.Contains(r.security, "") {
		header, ok := r.host.headers[r.security[0]]
		if !ok {
			return nil, fmt.Errorf("no sample has the credentials %q", r.security[0])
		}
		r.headers = append([][2]string{header}, r.headers...)
	}
	if r.body != nil {
		r.headers = append(r.headers, [2]string{"Content-Type", r.contentType})
	}
	return []Sample{{"curl", "sh", r.curlSample()}, {"Python", "python", r.pythonSample()},
		{"TypeScript", "typescript", r.typeScriptSample()}, {"Go", "go", r.goSample()}}, nil
}

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
		fmt.Fprintf(&b, " \\\n  -d '%s'", body)
	}
	return b.String() + "\n"
}

// splitVariable returns the text before the variable of a header's value, and the variable, "" for
// none.
func splitVariable(value string) (before, variable string) {
	before, variable, _ = strings.Cut(value, "$")
	return before, variable
}

// pythonSample returns the request as a Python program (requests) that reads the address and the
// key from the environment.
func (r *request) pythonSample() string {
	var b strings.Builder
	b.WriteString("import os\n\nimport requests\n\n")
	fmt.Fprintf(&b, "answer = requests.request(\n    %q,\n    os.environ[%q] + %s,\n", r.method, r.host.address,
		strconv.Quote(r.path))
	if len(r.headers) > 0 {
		b.WriteString("    headers={\n")
		for _, h := range r.headers {
			before, variable := splitVariable(h[1])
			switch {
			case variable == "":
				fmt.Fprintf(&b, "        %q: %q,\n", h[0], before)
			case before == "":
				fmt.Fprintf(&b, "        %q: os.environ[%q],\n", h[0], variable)
			default:
				fmt.Fprintf(&b, "        %q: %q + os.environ[%q],\n", h[0], before, variable)
			}
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
	}
	return compactJSON(value)
}

// typeScriptSample returns the request as a TypeScript program (fetch) that reads the address and
// the key from the environment.
func (r *request) typeScriptSample() string {
	var b strings.Builder
	env := func(variable string) string { return "${process.env." + variable + "}" }
	fmt.Fprintf(&b, "const answer = await fetch(`%s%s`, {\n  method: %q,\n", env(r.host.address), r.path, r.method)
	if len(r.headers) > 0 {
		b.WriteString("  headers: {\n")
		for _, h := range r.headers {
			before, variable := splitVariable(h[1])
			if variable == "" {
				fmt.Fprintf(&b, "    %q: %q,\n", h[0], before)
			} else {
				fmt.Fprintf(&b, "    %q: `%s%s`,\n", h[0], before, env(variable))
			}
		}
		b.WriteString("  },\n")
	}
	if r.body != nil {
		fmt.Fprintf(&b, "  body: JSON.stringify(%s),\n", indentedJSON(r.body, "  "))
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
	fmt.Fprintf(&b, "\treq, err := http.NewRequest(%q, os.Getenv(%q)+%q, %s)\n", r.method, r.host.address, r.path, body)
	b.WriteString("\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n")
	for _, h := range r.headers {
		before, variable := splitVariable(h[1])
		switch {
		case variable == "":
			fmt.Fprintf(&b, "\treq.Header.Set(%q, %q)\n", h[0], before)
		case before == "":
			fmt.Fprintf(&b, "\treq.Header.Set(%q, os.Getenv(%q))\n", h[0], variable)
		default:
			fmt.Fprintf(&b, "\treq.Header.Set(%q, %q+os.Getenv(%q))\n", h[0], before, variable)
		}
	}
	b.WriteString("\tresp, err := http.DefaultClient.Do(req)\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tdefer resp.Body.Close()\n\ttext, err := io.ReadAll(resp.Body)\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tfmt.Println(resp.StatusCode)\n\tfmt.Println(string(text))\n}\n")
	return b.String()
}

// rawString quotes a text with backquotes, or with double quotes when it has a backquote.
func rawString(s string) string {
	if strings.Contains(s, "`") {
		return strconv.Quote(s)
	}
	return "`" + s + "`"
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
