package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/workspace"
	"purser/httpapi/dashboard"
)

// naughtyStrings reads the texts that a page must show as text. Each line of the file says why it
// is there.
func naughtyStrings(t *testing.T) (texts []string) {
	t.Helper()
	file, err := os.Open("testdata/naughty_strings.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct{ Text, Why string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		require.NotEmpty(t, line.Why, line.Text)
		texts = append(texts, line.Text)
	}
	return texts
}

// harmless are texts without markup. Together they pass and fail the same checks as the naughty
// strings: a short one, an address, one with a control character, and one that is too long.
var harmless = []string{"Harmless", "https://harmless.example/x", "\x00harmless", strings.Repeat("harmless ", 300)}

// Every text that clients and partners control is stored as a naughty string by every operation and
// form that takes it. No page then has an element, an attribute or a kind of address that it does
// not have with harmless texts, and every page that shows the string shows it as text.
func TestTextsOfOthersAreShownAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pages, takes := w.sitePages(), map[string]string{}
	allowed := map[string]map[string]bool{}
	for i, text := range harmless {
		p := w.plantText(text, pages, takes, i == 0)
		for page, parts := range p.browse() {
			if allowed[page] == nil {
				allowed[page] = map[string]bool{}
			}
			maps.Copy(allowed[page], parts)
		}
		t.Logf("%.20q is stored in %d places and shown %d times on %d pages", text, p.stored, p.shown, p.visited)
	}
	t.Logf("%d fields take texts: %s", len(takes), slices.Sorted(maps.Keys(takes)))
	w.close()
	part := 0
	for texts := range slices.Chunk(naughtyStrings(t), textsPerWorld) {
		part++
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			newWorld(t).requireOnlyAllowedParts(texts, takes, allowed)
		})
	}
}

// textsPerWorld is the number of naughty strings that one world stores. The worlds run in parallel,
// because storing and browsing mostly wait for timers and relays.
const textsPerWorld = 6

// requireOnlyAllowedParts stores each text and requires that the pages have only allowed parts, by
// page.
func (w *world) requireOnlyAllowedParts(texts []string, takes map[string]string, allowed map[string]map[string]bool) {
	w.t.Helper()
	pages := w.sitePages()
	for _, text := range texts {
		p := w.plantText(text, pages, takes, false)
		for page, parts := range p.browse() {
			for part := range parts {
				require.True(w.t, allowed[page][part], "%q adds to %s: %s", text, page, part)
			}
		}
		require.NotZero(w.t, p.stored, "%q", text)
		require.Greater(w.t, p.shown, p.stored/4, "%q is hardly shown", text)
	}
}

// planting is a workspace in which every text of others is one string, followed by a mark.
type planting struct {
	*world
	tn      tenant
	estate  *estate
	pages   []sitePage
	text    string
	takes   map[string]string // the form of a text that a field takes, by operation and field
	learns  bool              // finds the forms that fields take
	marks   int
	stored  int // accepted requests
	shown   int // marks on pages
	visited int // pages
	parts   map[string]map[string]bool
}

// textForms are the forms of a text: alone, in a URL, in an email address.
var textForms = []string{"%s", hookURL + "&x=%s", "%s@example.com"}

// plantText stores a text wherever an operation or a partner's report takes one.
func (w *world) plantText(text string, pages []sitePage, takes map[string]string, learns bool) *planting {
	w.t.Helper()
	w.clock.turn(rateWindow)
	w.n++
	p := &planting{world: w, text: text, takes: takes, learns: learns, pages: pages,
		parts: map[string]map[string]bool{}}
	p.tn = p.namedTenant(fmt.Sprint("planting-", w.n))
	p.estate = w.newEstate(p.tn)
	for _, page := range pages { // the last operation makes another workspace
		page.addressIn(p.tn.workspace, p.estate)
	}
	for _, op := range w.checked.operations(w.t) {
		if op.body != nil && !op.partner && !op.unavailable && !op.gone && !op.rpc {
			p.plantIn(op)
		}
	}
	p.plantReports()
	p.plantMember()
	w.relayed()
	return p
}

// namedTenant makes a tenant with dollars and coins, whose workspace has the string in its name.
func (p *planting) namedTenant(name string) tenant {
	p.t.Helper()
	tn := tenant{cookie: p.ok(p.signup(name + "@example.com")).cookie}
	made := p.post(session(tn.cookie), "/api/workspaces", jsonObject("name", p.marked("%s")))
	if made.status != 200 {
		made = p.ok(p.post(session(tn.cookie), "/api/workspaces", jsonObject("name", name)))
	}
	tn.workspace = made.text("workspace", "id")
	tn.secret = p.ok(p.post(session(tn.cookie), "/api/auth/keys", `{"label":"all","scopes":`+allScopes+`}`)).
		text("secret")
	tn.all = key(tn.secret)
	p.fund(tn, 100_000)
	p.askBalance(tn, balance.ReceiveStablecoin{Workspace: tn.workspace, EventID: "coins-" + name, Asset: "USDC",
		Chain: "polygon", TxHash: "0x1", AmountUsdCents: 100_000})
	return tn
}

// jsonObject returns a JSON object of one member.
func jsonObject(name string, value any) string {
	text, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// marked returns the text in a form, with a mark of its own. No random id or key holds a mark:
// their alphabet has no u.
func (p *planting) marked(form string) string {
	p.marks++
	return fmt.Sprintf(form, fmt.Sprintf("%suqz%dzqu", p.text, p.marks))
}

var markPattern = regexp.MustCompile(`uqz\d+zqu`)

// plantIn sends an operation once for each text of its body's example, with the string in its
// place.
func (p *planting) plantIn(op operation) {
	p.t.Helper()
	for _, leaf := range append(leavesOf(op.body, nil), op.optionalTexts()...) {
		name := op.name + " " + strings.Join(leaf, ".")
		forms := []string{p.takes[name]}
		if p.learns {
			forms = textForms
		}
		for _, form := range forms {
			if form == "" {
				continue
			}
			r := p.estate.ready(op, nil)
			var body map[string]any
			require.NoError(p.t, json.Unmarshal([]byte(r.body), &body))
			setLeaf(body, leaf, p.marked(form))
			if op.doc.OperationID == "submitIntent" {
				p.estate.signIntent(body, p.estate.agentKey)
			}
			sent, err := json.Marshal(body)
			require.NoError(p.t, err)
			r.body = string(sent)
			if got := p.send(r); got.status < 300 {
				p.stored++
				if p.learns {
					p.takes[name] = form
				}
				break
			}
		}
	}
}

// leavesOf returns the paths of the texts in a document.
func leavesOf(document any, at []string) (leaves [][]string) {
	switch v := document.(type) {
	case string:
		return [][]string{at}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			leaves = append(leaves, leavesOf(v[name], append(slices.Clone(at), name))...)
		}
	case []any:
		if len(v) > 0 {
			leaves = leavesOf(v[0], append(slices.Clone(at), "0"))
		}
	}
	return leaves
}

// optionalTexts returns the paths of the texts that the operation takes and its example lacks. An
// object of any members gets one.
func (op operation) optionalTexts() (leaves [][]string) {
	for _, variant := range append(op.schema.OneOf, &openapi3.SchemaRef{Value: op.schema}) {
		for _, name := range slices.Sorted(maps.Keys(variant.Value.Properties)) {
			of := variant.Value.Properties[name].Value
			_, given := op.body[name]
			switch {
			case given || len(of.Enum) > 0 || of.Type == nil:
			case of.Type.Includes("string"):
				leaves = append(leaves, []string{name})
			case of.Type.Includes("array") && of.Items.Value.Type.Includes("string"):
				leaves = append(leaves, []string{name, "0"})
			case of.Type.Includes("object") && len(of.Properties) == 0:
				leaves = append(leaves, []string{name, "note"})
			}
		}
	}
	return leaves
}

// setLeaf sets a text in a document. An array or object that is not there is made for it.
func setLeaf(document any, leaf []string, text string) {
	switch v := document.(type) {
	case map[string]any:
		switch {
		case len(leaf) == 1:
			v[leaf[0]] = text
			return
		case v[leaf[0]] == nil && leaf[1] == "0":
			v[leaf[0]] = []any{""}
		case v[leaf[0]] == nil:
			v[leaf[0]] = map[string]any{}
		}
		setLeaf(v[leaf[0]], leaf[1:], text)
	case []any:
		if len(leaf) > 1 {
			setLeaf(v[0], leaf[1:], text)
			return
		}
		v[0] = text
	}
}

// plantReports stores the string as the references that a bank, a chain and a ramp report.
func (p *planting) plantReports() {
	p.t.Helper()
	for path, report := range map[string]map[string]any{
		"/api/webhooks/bank-transfer": {"type": "deposit.received", "data": map[string]any{"workspaceId": p.tn.workspace,
			"amountUsdCents": 100, "rail": "ach", "reference": p.marked("%s")}},
		"/api/webhooks/stablecoin-deposit": {"type": "deposit.completed", "data": map[string]any{
			"workspaceId": p.tn.workspace, "asset": "USDC", "chain": "polygon", "amountUsdCents": 100,
			"txHash": p.marked("%s")}},
	} {
		report["id"] = p.marked("%s")
		body, err := json.Marshal(report)
		require.NoError(p.t, err)
		if p.sendReport(path, string(body)).status == 200 {
			p.stored++
		}
	}
	link := p.newCheckout(p.tn, "").text("session", "id")
	p.ok(p.pick(link, "USDC", "polygon"))
	address := p.ok(p.get(p.tn.all, checkoutPath+"/"+link)).text("session", "receivingAddresses", 0, "address")
	_, err := p.system.Ask(p.t.Context(), actors.Envelope{Kind: "checkout", Stream: link, Workspace: p.tn.workspace,
		Command: checkout.Observed{Chain: "polygon", Asset: "USDC", Address: address, TxHash: p.marked("%s"),
			Amount: "30000000", Block: 7, BlockHash: p.marked("%s"), Confirmations: 60, Threshold: 50,
			At: p.clock.now(), From: p.marked("%s")}})
	if err == nil {
		p.stored++
	}
}

// plantMember has a person join whose email address has the string.
func (p *planting) plantMember() {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"email": p.marked("%s@example.com"), "password": "a long password"})
	require.NoError(p.t, err)
	p.clock.turn(rateWindow)
	joined := p.post(nil, "/api/dashboard/signup", string(body))
	if joined.status == 200 {
		p.joinWorkspace(p.tn, joined.text("user", "id"), workspace.Member)
		p.stored++
		p.look("the account of a member", p.visit(session(joined.cookie), "/dashboard/account", nil))
	}
}

// maxBrowsed bounds the pages that are followed from one to another.
const maxBrowsed = 600

// browse visits every page with the estate's records, each page that these lead to, each filter
// with the string, and sends the string in every form. It returns the parts of each page.
func (p *planting) browse() map[string]map[string]bool {
	p.t.Helper()
	var next []string
	for _, page := range p.pages {
		next = append(next, page.addressIn(p.tn.workspace, p.estate))
	}
	seen := map[string]bool{}
	for i := 0; i < len(next) && i < maxBrowsed; i++ {
		if seen[next[i]] {
			continue
		}
		seen[next[i]] = true
		path, _, _ := strings.Cut(next[i], "?")
		root := p.look(patternOf(p.pages, path), p.visit(session(p.tn.cookie), next[i], nil))
		for _, href := range attributesOf(root, "a", "href") {
			if strings.HasPrefix(href, dashboard.Root) {
				next = append(next, href)
			}
		}
		if !strings.Contains(next[i], "?") {
			for _, name := range filtersOf(root) {
				next = append(next, next[i]+"?"+url.Values{name: {p.marked("%s")}}.Encode())
			}
		}
	}
	for _, page := range p.pages {
		address := page.addressIn(p.tn.workspace, p.estate)
		for _, f := range page.Forms {
			p.sendForm(address, f)
		}
	}
	return p.parts
}

// filtersOf returns the parameters that a page's filters set, and those of every page.
func filtersOf(root *html.Node) []string {
	names := []string{"cursor", "done"}
	for n := range root.Descendants() {
		if n.Data != "form" || !slices.Contains(n.Attr, html.Attribute{Key: "method", Val: "get"}) {
			continue
		}
		for _, element := range []string{"input", "select", "textarea"} {
			names = append(names, attributesOf(n, element, "name")...)
		}
	}
	return names
}

// patternOf returns the address of the page that a path belongs to, or "another page".
func patternOf(pages []sitePage, path string) string {
	for _, p := range pages {
		if same := slices.EqualFunc(strings.Split(p.Address, "/"), strings.Split(path, "/"),
			func(pattern, part string) bool { return pattern == part || strings.HasPrefix(pattern, "{") }); same {
			return p.Address
		}
	}
	return "another page"
}

// sendForm sends a form with the string in every field that takes text.
func (p *planting) sendForm(address string, f dashboard.FormAddress) {
	p.t.Helper()
	form, texts := p.fillForm(f), 0
	for _, field := range f.Fields {
		if len(field.Options) == 0 {
			form.Set(field.Name, p.marked("%s"))
			texts++
		}
	}
	if texts == 0 {
		return
	}
	answered := p.visit(session(p.tn.cookie), address+"/"+f.Name, form)
	if answered.status == 303 {
		require.Regexp(p.t, `^/dashboard[!-~]*$`, answered.location)
		return
	}
	p.look("after "+f.Name+" of "+f.Page, answered)
}

// look parses a page, notes its parts and requires that each mark on it stands behind the whole
// string. A file has no parts.
func (p *planting) look(page string, shown pageReply) *html.Node {
	p.t.Helper()
	if shown.saved {
		return &html.Node{}
	}
	requireOnlyOurs(p.t, shown.text)
	root := p.parsePage(shown.text)
	p.visited++
	if p.parts[page] == nil {
		p.parts[page] = map[string]bool{}
	}
	for n := range root.Descendants() {
		switch n.Type {
		case html.ElementNode:
			p.parts[page][partOf(n)] = true
			for _, a := range n.Attr {
				p.requireWhole(page, a.Val)
			}
		case html.TextNode:
			p.requireWhole(page, n.Data)
		default:
			require.Equal(p.t, html.DoctypeNode, n.Type, "%q makes a node of %s: %s", p.text, page, n.Data)
		}
	}
	return root
}

// addressAttributes are the attributes whose value is an address.
var addressAttributes = []string{"href", "src", "action", "formaction", "data", "srcset", "poster", "content"}

var schemePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)

// partOf writes an element with its ancestors, the names of its attributes and the kinds of its
// addresses.
func partOf(n *html.Node) string {
	part := n.Data
	for up := n.Parent; up != nil && up.Type == html.ElementNode; up = up.Parent {
		part = up.Data + ">" + part
	}
	var attributes []string
	for _, a := range n.Attr {
		text := a.Key
		if value := strings.TrimSpace(a.Val); slices.Contains(addressAttributes, a.Key) {
			switch scheme := schemePattern.FindString(value); {
			case scheme != "":
				text += "=" + strings.ToLower(scheme)
			case len(value) > 1 && strings.ContainsRune(`/\`, rune(value[0])) && strings.ContainsRune(`/\`, rune(value[1])):
				text += "=//"
			}
		}
		attributes = append(attributes, text)
	}
	slices.Sort(attributes)
	return part + " " + strings.Join(attributes, " ")
}

// requireWhole requires that the string, as it is or escaped for an address or for JSON, stands
// before each mark.
func (p *planting) requireWhole(page, value string) {
	p.t.Helper()
	for _, at := range markPattern.FindAllStringIndex(value, -1) {
		p.shown++
		require.True(p.t, slices.ContainsFunc(p.spellings(), func(spelling string) bool {
			return strings.HasSuffix(value[:at[0]], spelling)
		}), "%s shows %q as %q", page, p.text, value)
	}
}

// spellings are the ways in which a page may show the string: without what HTML cannot hold, and
// escaped for an address or for JSON.
func (p *planting) spellings() (all []string) {
	for _, text := range []string{p.text, strings.TrimSpace(p.text)} {
		plain := strings.NewReplacer("\r\n", "\n", "\x00", "\ufffd").Replace(text)
		var inJSON strings.Builder
		encoder := json.NewEncoder(&inJSON)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(text); err != nil {
			panic(err)
		}
		escaped, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		all = append(all, text, plain, strings.ToUpper(plain[:1])+plain[1:], url.QueryEscape(text), url.PathEscape(text),
			inJSON.String()[1:inJSON.Len()-2], string(escaped[1:len(escaped)-1]))
	}
	return all
}
