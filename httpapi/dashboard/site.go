package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"purser/httpapi/highlight"
	"purser/httpapi/web"
)

//go:embed dashboard.html dashboard.css dashboard.js wallet.js
var files embed.FS

// Root is the path of the dashboard.
const Root = "/dashboard"

// entryPath leads a signed-in person home: to the only workspace, or to the list of them.
const entryPath = "/"

// FilesPath is the path under which the pages' own files are served.
const FilesPath = Root + "/files/"

// Policy is the Content-Security-Policy of every page. The script may insert only HTML of the
// server, through its one Trusted Types policy.
var Policy = "default-src 'none'; script-src 'self'; style-src 'self' " +
	web.StyleSource(files, "dashboard.css") + "; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types purser"

// doneParameter names the action whose result a page shows.
const doneParameter = "done"

// Statuses of pages.
const (
	statusOK            = 200
	statusSeeOther      = 303
	statusUnprocessable = 422
	statusNotFound      = 404
	statusTooMany       = 429
	statusInternal      = 500
)

// access is the session that a page needs.
type access uint8

const (
	public   access = 1 + iota // none
	personal                   // a session
	member                     // a session of a member of the workspace of the path
)

// page is one page. Its path is relative to Root, or to the address of a workspace for a member's
// page; {id} stands for an id.
type page struct {
	path    string
	access  access
	section string // the entry of the navigation that the page belongs to
	show    func(*visit) (*View, error)
	actions []action
}

// section is an entry of the navigation. It is shown to a role that may read its operation. Entries
// of one group stand below its name.
type section struct{ group, name, path, reads, icon string }

var sections = []section{
	{"", "Home", "", "/api/treasury", "home"},
	{"Cards", "Swipes", "swipes", "/api/authorizations", "swap"},
	{"Cards", "Cards", "cards", "/api/cards", "card"},
	{"Cards", "Cardholders", "cardholders", cardholdersPath, "people"},
	{"Cards", "Agents", "agents", agentsPath, "agent"},
	{"Treasury", "Dollars", "treasury", "/api/treasury", "ledger"},
	{"Treasury", "Payouts", "payouts", "/api/treasury/payouts", "out"},
	{"Treasury", "Recipients", "recipients", "/api/treasury/counterparties", "person"},
	{"Treasury", "Currencies", "currencies", currenciesPath, "globe"},
	{"Treasury", "Ramp", "ramp", rampOrdersPath, "ramp"},
	{"Get paid", "Checkout links", "checkout", "/api/v1/checkout/sessions", "link"},
	{"Developers", "API keys", "keys", "/api/dashboard/keys", "key"},
	{"Developers", webhookSection, "webhooks", endpointsPath, "hook"},
	{"Developers", "Request log", "requests", requestsPath, "log"},
	{"Workspace", "Members", "team", "/api/dashboard/members", "people"},
	{"Workspace", "Settings", "settings", workspacePath, "gear"},
}

// Site renders the dashboard. It is safe for concurrent use.
type Site struct {
	*web.Files
	templates *template.Template
	pages     []page
	counts    waitingCounts
}

// New reads the templates and files. It fails only for a defect of the embedded files.
func New() (*Site, error) {
	loaded, err := web.LoadFiles(files, FilesPath, "dashboard.css", "dashboard.js", "wallet.js")
	if err != nil {
		return nil, err
	}
	s := &Site{Files: loaded, pages: allPages()}
	s.templates, err = template.New("dashboard.html").Funcs(template.FuncMap{"file": s.PathOf, "inline": s.Inline,
		"qr": web.QR, "favicon": func() string { return web.FaviconPath }, "initials": initialsOf,
		"icon": drawIcon, "highlight": highlight.Code, "cents": splitCents}).ParseFS(files, "dashboard.html")
	return s, err
}

// allPages lists the pages. Each resource lists its own beside their content.
func allPages() []page {
	return slices.Concat(accountPages(), homePages(), swipePages(), cardPages(), physicalCardPages(),
		cardholderPages(),
		agentPages(), treasuryPages(), payoutPages(), payoutQuotePages(), recipientPages(), currencyPages(),
		conversionPages(), rampPages(), walletPages(), checkoutPages(), keyPages(), webhookPages(), requestPages(),
		teamPages(), settingsPages(), searchPages())
}

// PageAddress is a page as tables of pages list it.
type PageAddress struct {
	Address string // {workspace} and {id} stand for ids
	Public  bool   // the page needs no session
	Member  bool   // the page needs a member of the workspace
	Forms   []FormAddress
}

// FormAddress is a form of a page and the operation that it runs.
type FormAddress struct {
	Page         string // the address of the page: {workspace} and {id} stand for ids
	Name         string // the form posts to the page's address, a slash and its name
	Method, Path string
	Member       bool // the page needs a member of the workspace
	Fields       []Field
}

// Pages lists the pages in the order of the navigation.
func (s *Site) Pages() (all []PageAddress) {
	for i := range s.pages {
		p := &s.pages[i]
		listed := PageAddress{Address: Root, Public: p.access == public, Member: p.access == member}
		if listed.Member {
			listed.Address += "/{workspace}"
		}
		if p.path != "" {
			listed.Address += "/" + p.path
		}
		for _, a := range p.actions {
			listed.Forms = append(listed.Forms, FormAddress{Page: listed.Address, Name: a.name, Method: a.method,
				Path: a.path, Member: listed.Member, Fields: a.fields})
		}
		all = append(all, listed)
	}
	return all
}

// Forms lists the forms of all pages. The server checks at its start that each operation is in its
// table of routes.
func (s *Site) Forms() (forms []FormAddress) {
	for _, p := range s.Pages() {
		forms = append(forms, p.Forms...)
	}
	return forms
}

// Response is what the browser gets: a page, or the address of another.
type Response struct {
	Status   int
	Body     []byte
	Location string
	Wait     time.Duration // for Retry-After; 0 gives no advice
	File     *File         // of a body that is not a page, or nil
}

// notHere is the refusal of a page that does not exist, or is not the person's.
func notHere() *refusal { return &refusal{status: statusNotFound, code: "not_found"} }

// frame is the data of the layout.
type frame struct {
	*View
	Visit    *Visit
	Sections []navigationGroup
	Home     string
	Operator bool // an operator's page
	SignedIn bool // an operator has signed in
	Alone    bool // a limit or a fault has refused the page, so it brings its style
}

// navigation is an entry of the navigation as it is drawn.
type navigation struct {
	Link
	Icon    string
	Count   string // the number of records that wait for a person, or ""
	Current bool
}

// navigationGroup is the entries of a group, whose name is "" for those on top.
type navigationGroup struct {
	Name    string
	Entries []navigation
}

// Serve answers a visit. It fails only for a defect of the program, without entropy, and with an
// error that no refusal describes.
func (s *Site) Serve(visited *Visit) (Response, error) {
	p, params, name := s.findPage(visited)
	v := &visit{Visit: visited, page: p, params: params, filled: map[string]string{}}
	switch {
	case p == nil:
		return s.findForm(v)
	case p.access == member && visited.Email != "" && visited.Role == "":
		return s.drawRefusal(v, notHere())
	case p.access != public && visited.Email == "":
		return Response{Status: statusSeeOther,
			Location: SignInPath + "?next=" + url.QueryEscape(v.addressWith())}, nil
	case visited.Method == "POST":
		return s.runAction(v, p.actionOf(name))
	}
	if a := p.actionOf(visited.Query.Get(doneParameter)); a != nil && a.done != "" {
		return s.drawPage(v, statusOK, &Notice{Text: a.done})
	}
	return s.drawPage(v, statusOK, nil)
}

// findPage returns the page of a visit's path, and for a POST the name of its action. The page is
// nil for an unknown path.
func (s *Site) findPage(v *Visit) (found *page, params map[string]string, name string) {
	path := v.Path
	if v.Method == "POST" {
		i := strings.LastIndexByte("/"+path, '/')
		path, name = strings.TrimSuffix(path[:i], "/"), path[i:]
		v.Path = path
	}
	for i := range s.pages {
		p := &s.pages[i]
		relative, inside := path, v.Workspace != ""
		if inside {
			relative = strings.TrimPrefix(strings.TrimPrefix(path, v.Workspace), "/")
		}
		if (p.access == member) != inside {
			continue
		}
		if params, ok := matchPath(p.path, relative); ok && (v.Method != "POST" || p.actionOf(name) != nil) {
			return p, params, name
		}
	}
	return nil, nil, ""
}

// findForm leads a browser that opens the address of a form, such as after a reload, to its page.
// Any other unknown address is refused.
func (s *Site) findForm(v *visit) (Response, error) {
	if v.Method != "POST" {
		asForm := *v.Visit
		asForm.Method = "POST"
		if p, _, _ := s.findPage(&asForm); p != nil {
			return Response{Status: statusSeeOther, Location: strings.TrimSuffix(Root+"/"+asForm.Path, "/")}, nil
		}
	}
	return s.drawRefusal(v, notHere())
}

// matchPath compares a path with a pattern and returns the parameters.
func matchPath(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params := map[string]string{}
	for i := range want {
		switch {
		case strings.HasPrefix(want[i], "{") && got[i] != "":
			params[strings.Trim(want[i], "{}")] = got[i]
		case want[i] != got[i]:
			return nil, false
		}
	}
	return params, true
}

// runAction runs the operation of a form. A refusal draws the page again with the values that were
// sent.
func (s *Site) runAction(v *visit, a *action) (Response, error) {
	body, err := a.readMembers(v)
	if faults, ok := errors.AsType[formFaults](err); ok {
		v.failed, v.problem, v.wrong = a.name, faults.Error(), faults.byField()
		return s.drawPage(v, statusUnprocessable, nil)
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return s.drawRefusal(v, refused)
	}
	if err != nil {
		return Response{}, err
	}
	if question, err := askFirst(v, a); question != nil || err != nil {
		if refused, ok := errors.AsType[*refusal](err); ok {
			return s.drawRefusal(v, refused)
		}
		if err != nil {
			return Response{}, err
		}
		return s.renderView(v, statusOK, question)
	}
	answered := v.API.Do(operationOf(v, a, body))
	s.counts.dropCounts(v)
	if answered.Code != "" {
		return s.refuseAction(v, a, answered)
	}
	if a.show != nil {
		view, err := a.show(v, answered.Body)
		if err != nil {
			return Response{}, err
		}
		return s.renderView(v, statusOK, view)
	}
	location := v.addressWith(doneParameter, a.name)
	if a.then != nil {
		if location, err = a.then(v, answered.Body); err != nil {
			return Response{}, err
		}
	}
	return Response{Status: statusSeeOther, Location: location}, nil
}

// operationOf returns the operation of an action. Its path takes the parameters of the page's path,
// and the fields that are named for a parameter. A DELETE has its other fields in its query, and
// names the record there when its path has no parameter.
func operationOf(v *visit, a *action, body map[string]any) Operation {
	op := Operation{Method: a.method, Path: a.path, Params: map[string]string{}, Query: map[string]string{},
		Key: v.Form.Get(keyField)}
	maps.Copy(op.Params, v.params)
	if v.target != "" {
		op.Params["id"] = v.target
	}
	maps.Copy(op.Params, a.params)
	fields := len(a.fields)
	for _, f := range a.fields {
		if strings.Contains(a.path, "{"+f.Name+"}") {
			op.Params[f.Name] = v.Form.Get(f.Name)
			delete(body, f.Name)
			fields--
		}
	}
	switch {
	case a.method == "DELETE" && !strings.Contains(a.path, "{"):
		op.Query["id"] = v.recordID()
	case a.method == "DELETE":
		for name := range body {
			op.Query[name] = strings.Join(v.Form[name], ",")
		}
	case fields > 0 || len(body) > 0:
		op.Body = body
	}
	return op
}

// keyField is the field of a form that holds its Idempotency-Key.
const keyField = "key"

// refuseAction draws the page of a refused action with the reason, beside the field that the reason
// names. After a failure of the server or a limit of requests the form keeps its Idempotency-Key,
// so that pressing its button again acts once. A refusal of the person or of the record has a page
// of its own.
func (s *Site) refuseAction(v *visit, a *action, answered Answer) (Response, error) {
	refused := &refusal{answered.Status, answered.Code, answered.Message, answered.Wait}
	if answered.Status == statusNotFound && a.missing != "" {
		answered.Message = a.missing
	} else if answered.Status == statusNotFound || answered.Code == "role_required" ||
		answered.Code == "origin_refused" {
		return s.drawRefusal(v, refused)
	}
	v.failed, v.problem = a.name, refusalText(answered.Code, answered.Message)
	switch {
	case answered.Code == "outcome_unknown":
		v.again, v.problem = true, "It is not known whether this has happened. Press the button again: it acts once."
	case answered.Status >= statusInternal, answered.Status == statusTooMany:
		v.again, v.problem = true, v.problem+" Press the button again in a moment: it acts once."
	}
	nameFields(v, a)
	response, err := s.drawPage(v, answered.Status, nil)
	if err == nil && v.again && !v.drawn {
		response, err = s.drawAlone(v, a, refused)
	}
	response.Wait = answered.Wait
	return response, err
}

// drawAlone draws a refused form on a page of its own, when its page cannot be read at the moment.
func (s *Site) drawAlone(v *visit, a *action, refused *refusal) (Response, error) {
	form, err := v.drawForm(a.name)
	if err != nil || form == nil {
		return s.drawRefusal(v, refused)
	}
	return s.renderView(v, refused.status, &View{Title: form.Submit, Notice: &Notice{Text: v.problem, Refused: true},
		Blocks: []Block{{Form: form}}})
}

// refusalText writes a refusal as a sentence.
func refusalText(code, message string) string {
	if message == "" {
		return inWords(code) + "."
	}
	return strings.ToUpper(message[:1]) + message[1:]
}

// drawPage renders the page of a visit.
func (s *Site) drawPage(v *visit, status int, notice *Notice) (Response, error) {
	view, err := v.page.show(v)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return s.drawList(v, refused)
	}
	if elsewhere, ok := errors.AsType[*moved](err); ok {
		return Response{Status: statusSeeOther, Location: elsewhere.location}, nil
	}
	if saved, ok := errors.AsType[*download](err); ok {
		return Response{Status: statusOK, Body: saved.answered.Body, File: saved.answered.File}, nil
	}
	if err != nil {
		return Response{}, err
	}
	if notice != nil {
		view.Notice = notice
	}
	if v.failed != "" {
		view.Notice, view.Live = &Notice{Text: v.problem, Refused: true}, false
	}
	return s.renderView(v, status, view)
}

// listPath returns the path of the list behind a page: of its entry in the navigation, or else the
// first part of its own path.
func (p *page) listPath() string {
	for _, sec := range sections {
		if sec.name == p.section {
			return sec.path
		}
	}
	path, _, _ := strings.Cut(p.path, "/")
	return path
}

// drawList draws the list of a page's records in place of an unknown record, and a list without its
// query in place of a refused filter, with the reason. Without such a list it draws the refusal.
func (s *Site) drawList(v *visit, refused *refusal) (Response, error) {
	visited := *v.Visit
	reason := filterReason(refusalText(refused.code, refused.message)) + ". All are shown."
	if refused.status == statusNotFound && v.recordID() != "" {
		visited.Path = strings.Trim(v.Workspace+"/"+v.page.listPath(), "/")
		reason = "There is no " + cutText(v.recordID(), fieldText) + " here."
	} else if refused.code != "invalid_query" {
		return s.drawRefusal(v, refused)
	}
	visited.Query = url.Values{}
	list := &visit{Visit: &visited, filled: map[string]string{}}
	list.page, list.params, _ = s.findPage(&visited)
	if v.Method == "POST" || list.page == nil {
		return s.drawRefusal(v, refused)
	}
	view, err := list.page.show(list)
	_, refusedToo := errors.AsType[*refusal](err)
	if _, isFile := errors.AsType[*download](err); isFile || refusedToo {
		return s.drawRefusal(v, refused)
	}
	if err != nil {
		return Response{}, err
	}
	view.Notice, view.Live = &Notice{Text: reason, Refused: true}, false
	return s.renderView(list, refused.status, view)
}

// Refuse renders the refusal of a request that reaches no page. It fails only for a defect of the
// templates.
func (s *Site) Refuse(a Answer) (Response, error) {
	return s.drawRefusal(&visit{Visit: &Visit{}}, &refusal{a.Status, a.Code, a.Message, a.Wait})
}

// drawRefusal renders a refusal as a page.
func (s *Site) drawRefusal(v *visit, r *refusal) (Response, error) {
	titles := map[int]string{statusNotFound: "Page not found", 403: "Not permitted", 429: "Too many requests"}
	title := titles[r.status]
	if title == "" {
		title = "Something went wrong"
	}
	text := refusalText(r.code, r.message)
	if r.status == statusNotFound {
		text = "There is no such page, or it is not yours."
	}
	if r.wait > 0 {
		text = fmt.Sprintf("%s Load the page again in %d s.", text, int64(math.Ceil(r.wait.Seconds())))
	}
	view := &View{Title: title, Up: &Link{"Workspaces", Root}, Blocks: []Block{{Text: text}}}
	response, err := s.renderView(v, r.status, view)
	response.Wait = r.wait
	return response, err
}

// renderView executes the layout.
func (s *Site) renderView(v *visit, status int, view *View) (Response, error) {
	shown := *v.Visit
	if v.Role == "" {
		shown.Workspace, shown.Name = "", "" // of another person, as far as this one may know
	}
	f := frame{View: view, Visit: &shown, Home: Root, Alone: status == statusTooMany || status >= statusInternal}
	if v.Workspace != "" && v.Role != "" {
		f.Home, f.Sections = v.addressOf(), drawNavigation(v, s.counts.readCounts(v))
	}
	nameTables(view.Title, view.Blocks)
	var body bytes.Buffer
	if err := s.templates.ExecuteTemplate(&body, "page", f); err != nil {
		return Response{}, fmt.Errorf("page: %w", err)
	}
	return Response{Status: status, Body: body.Bytes()}, nil
}

// nameTables marks the tables whose captions repeat a heading: that of the block, or the page's
// title.
func nameTables(title string, blocks []Block) {
	for i := range blocks {
		b := &blocks[i]
		if b.Columns != nil {
			nameTables(title, b.Columns.First)
			nameTables(title, b.Columns.Second)
		}
		if b.Table != nil {
			b.Table.Named = b.Heading != "" || strings.HasPrefix(b.Table.Caption, title)
		}
	}
}

// initialsOf returns the first letters of the first two words of a name.
func initialsOf(name string) string {
	var letters []rune
	for word := range strings.FieldsSeq(name) {
		if len(letters) == 2 {
			break
		}
		letters = append(letters, unicode.ToUpper([]rune(word)[0]))
	}
	return string(letters)
}

// drawNavigation returns the entries of the navigation that the visit's role may read, with the
// records that wait by section.
func drawNavigation(v *visit, waiting map[string]string) (groups []navigationGroup) {
	for _, sec := range sections {
		if !v.API.May("GET", sec.reads) {
			continue
		}
		address := v.addressOf()
		if sec.path != "" {
			address = v.addressOf(sec.path)
		}
		if len(groups) == 0 || groups[len(groups)-1].Name != sec.group {
			groups = append(groups, navigationGroup{Name: sec.group})
		}
		last := &groups[len(groups)-1]
		last.Entries = append(last.Entries, navigation{Link: Link{sec.name, address}, Icon: sec.icon,
			Count: waiting[sec.name], Current: v.page != nil && v.page.section == sec.name})
	}
	return groups
}
