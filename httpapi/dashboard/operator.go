package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"purser/actors/fault"
	"purser/httpapi/web"
	"purser/persistence/money"
)

// OperatorRoot is the path of the operator's pages, on the admin port.
const OperatorRoot = "/operator"

// OperatorSignIn is the path of the sign-in, relative to OperatorRoot, of its page and its form.
const OperatorSignIn = "sign-in"

// OperatorSecretField is the field of the sign-in that holds the secret.
const OperatorSecretField = "secret"

// maxShownFindings bounds the findings of the last audit that a page shows.
const maxShownFindings = 20

// Operator reads the state of a server for the operator's pages, which only read. Its methods are
// safe for concurrent use.
type Operator interface {
	// Status measures the server. It never fails: what cannot be read is a problem of the status.
	Status() ServerStatus
	// Unmatched reads a page of the partners' reports that matched nothing. It fails with
	// invalid_query for a cursor that no page has given, while the stores are not open, and with
	// their errors.
	Unmatched(ctx context.Context, cursor string) (UnmatchedPage, error)
	// Workspaces reads a page of the workspaces of the server. It fails like Unmatched.
	Workspaces(ctx context.Context, cursor string) (WorkspacePage, error)
}

// ServerStatus is the state of a server. The figures are valid while Running.
type ServerStatus struct {
	Version  string
	Problems []string // the reasons for which the server should get no traffic
	Running  bool     // the stores are open

	RelayLag        time.Duration // age of the oldest decision that the journal does not have
	BacklogCents    money.Cents   // what these decisions have moved or held, each a positive amount
	BacklogEntries  int64
	BacklogLimit    int64
	FollowerLag     uint64 // journal positions that the authorizer has not applied
	FollowerLate    time.Duration
	Reservations    int // debits reserved in the authorizer and not yet followed
	ReservationAge  time.Duration
	LostShards      int // shards whose last commit is being resolved
	SetAside        int64
	SetAsideEntries int64
	Overdue         int64 // orders that a partner has and does not report
	Queued          int   // commands that wait for a journal commit
	Audit           *AuditResult
}

// AuditResult is the result of the last audit since the server started.
type AuditResult struct {
	At       time.Time
	Failure  string // the reason for which it did not end; "" when it ended
	Findings []string
	More     int64 // findings beyond Findings
	Compared string
}

// UnmatchedPage is a page of unmatched reports. Next is "" on the last.
type UnmatchedPage struct {
	Reports []UnmatchedReport
	Next    string
}

// UnmatchedReport is a partner's report that matched nothing, without its body.
type UnmatchedReport struct {
	ID, Partner, EventID, Type string
	At                         time.Time
}

// WorkspacePage is a page of workspaces, in the order of their shards. Next is "" on the last.
type WorkspacePage struct {
	Workspaces []WorkspaceSummary
	Next       string
}

// WorkspaceSummary is a workspace as the operator sees it.
type WorkspaceSummary struct {
	ID, Name, Mode, KYBStatus string
	Members, Keys             int
	CreatedAt                 time.Time
}

// OperatorVisit is a request of an operator's browser for a page. Path is behind OperatorRoot,
// without a slash at either end.
type OperatorVisit struct {
	Path     string
	Query    url.Values
	SignedIn bool
	Refused  Answer // status of the sign-in form; zero when it was not sent
	State    Operator
}

// operatorPage is one of the operator's pages.
type operatorPage struct {
	name, path string
	show       func(context.Context, *OperatorVisit) (*View, error)
}

var operatorPages = []operatorPage{
	{"Health", "", showServer}, {"Unmatched", "unmatched", showUnmatched},
	{"Workspaces", "workspaces", showServerWorkspaces},
}

func operatorAddress(path string) string { return strings.TrimSuffix(OperatorRoot+"/"+path, "/") }

// ServeOperator answers a request for an operator's page. Without a session every page leads to the
// sign-in. It fails only for a defect of the templates.
func (s *Site) ServeOperator(ctx context.Context, v *OperatorVisit) (Response, error) {
	if v.Path == OperatorSignIn {
		return s.drawOperatorSignIn(v)
	}
	if !v.SignedIn {
		return Response{Status: statusSeeOther, Location: operatorAddress(OperatorSignIn)}, nil
	}
	for i := range operatorPages {
		p := &operatorPages[i]
		if p.path != v.Path {
			continue
		}
		view, err := p.show(ctx, v)
		if err == nil {
			return s.drawOperator(v, p, statusOK, view)
		}
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == fault.InvalidQuery {
			first := *v
			first.Query = url.Values{}
			if view, err = p.show(ctx, &first); err == nil {
				view.Notice = &Notice{Text: refusalText(string(f.Code), f.Message) + ". The first page is shown.",
					Refused: true}
				return s.drawOperator(v, p, 400, view)
			}
		}
		return s.drawOperator(v, p, 503, &View{Title: p.name, Notice: &Notice{Text: "This cannot be read now: " +
			err.Error() + ".", Refused: true}})
	}
	return s.drawOperator(v, nil, statusNotFound, &View{Title: "Page not found", Blocks: []Block{{
		Text: "There is no such page."}}})
}

// drawOperatorSignIn draws the form that asks for the secret, after a refusal with its reason.
func (s *Site) drawOperatorSignIn(v *OperatorVisit) (Response, error) {
	form := &Form{Action: operatorAddress(OperatorSignIn), Submit: "Sign in", Fields: []Field{{
		Name: OperatorSecretField, Label: "Operator secret", Kind: fieldPassword, Required: true,
		Autocomplete: "current-password",
		Hint:         "In the file operator-secret of the data directory, or the setting PURSER_OPERATOR_SECRET."}}}
	view := &View{Title: "Operator", Lead: "The state of this server.", Blocks: []Block{{Form: form}}}
	status := statusOK
	if v.Refused.Code != "" {
		status = v.Refused.Status
		form.Fields[0].Problem = v.Refused.Message
		view.Notice = &Notice{Text: v.Refused.Message, Refused: true}
	}
	signedOut := *v
	signedOut.SignedIn = false
	response, err := s.drawOperator(&signedOut, nil, status, view)
	response.Wait = v.Refused.Wait
	return response, err
}

// drawOperator executes the layout with the navigation of the operator's pages.
func (s *Site) drawOperator(v *OperatorVisit, current *operatorPage, status int, view *View) (Response, error) {
	f := frame{View: view, Visit: &Visit{}, Home: OperatorRoot, Operator: true, SignedIn: v.SignedIn}
	if v.SignedIn {
		var pages navigationGroup
		for i := range operatorPages {
			p := &operatorPages[i]
			pages.Entries = append(pages.Entries, navigation{Link: Link{p.name, operatorAddress(p.path)},
				Current: p == current})
		}
		f.Sections = []navigationGroup{pages}
	}
	var body bytes.Buffer
	if err := s.templates.ExecuteTemplate(&body, "page", f); err != nil {
		return Response{}, fmt.Errorf("operator's page: %w", err)
	}
	return Response{Status: status, Body: body.Bytes()}, nil
}

// showServer shows the health of the server, its lags and the last audit.
func showServer(_ context.Context, v *OperatorVisit) (*View, error) {
	status := v.State.Status()
	view := &View{Title: "Health", Live: true}
	health := Block{Stats: []Stat{{Name: "Server", Value: "Ready", Note: "Version " + status.Version}}}
	if len(status.Problems) > 0 {
		health.Stats[0].Value = "Not ready"
		view.Notice = &Notice{Text: strings.Join(status.Problems, "; "), Refused: true}
	}
	if !status.Running {
		view.Blocks = []Block{health, {Text: "The stores are not open: the server is starting or stopping."}}
		return view, nil
	}
	health.Stats = append(health.Stats,
		Stat{Name: "Backlog", Value: web.Dollars(status.BacklogCents), Note: "moved or held, not in the journal"},
		Stat{Name: "Relay lag", Value: seconds(status.RelayLag), Note: "age of the oldest such decision"},
		Stat{Name: "Orders overdue", Value: groupedCount(status.Overdue), Note: "purser payouts lists them"})
	view.Blocks = append([]Block{health, status.lagBlock()}, auditBlocks(status.Audit)...)
	return view, nil
}

// lagBlock draws how many decisions, journal positions and commands wait between the stores, and
// for how long.
func (s *ServerStatus) lagBlock() Block {
	return Block{Heading: "Lags", Facts: []Fact{
		{"Decisions not relayed", plainCell(groupedCount(s.BacklogEntries) + " of at most " + groupedCount(s.BacklogLimit))},
		{"Journal positions not followed", plainCell(groupedCount(int64(s.FollowerLag)))},
		{"Longest time behind", plainCell(seconds(s.FollowerLate))},
		{"Reserved debits", plainCell(groupedCount(int64(s.Reservations)))},
		{"Oldest reservation", plainCell(seconds(s.ReservationAge))},
		{"Commands that wait for a commit", plainCell(groupedCount(int64(s.Queued)))},
		{"Shards with an unresolved commit", plainCell(groupedCount(int64(s.LostShards)))},
		{"Workspaces set aside", plainCell(fmt.Sprintf("%s, with %s decisions", groupedCount(s.SetAside),
			groupedCount(s.SetAsideEntries)))},
	}}
}

// auditBlocks draws the last audit.
func auditBlocks(a *AuditResult) []Block {
	if a == nil {
		return []Block{{Heading: "Last audit", Text: "None since the server started. Run purser audit."}}
	}
	result := Cell{Text: "Clean", Tone: "good"}
	switch {
	case a.Failure != "":
		result = Cell{Text: "Did not end", Tone: "warn"}
	case len(a.Findings) > 0:
		result = Cell{Text: fmt.Sprintf("%s findings", groupedCount(int64(len(a.Findings))+a.More)), Tone: "bad"}
	}
	facts := []Fact{{"Result", result}, {"Ended (UTC)", timeCell(a.At)}}
	if a.Failure != "" {
		facts = append(facts, Fact{"Reason", plainCell(a.Failure)})
	} else {
		facts = append(facts, Fact{"Compared", plainCell(a.Compared)})
	}
	blocks := []Block{{Heading: "Last audit", Facts: facts}}
	if len(a.Findings) > 0 {
		t := &Table{Caption: fmt.Sprintf("Findings, the first %d; purser audit prints all",
			min(len(a.Findings), maxShownFindings)), Columns: []Column{{Name: "Finding"}}}
		for _, text := range a.Findings[:min(len(a.Findings), maxShownFindings)] {
			t.Rows = append(t.Rows, []Cell{plainCell(text)})
		}
		blocks = append(blocks, Block{Table: t})
	}
	return blocks
}

// showUnmatched lists the reports of partners that matched nothing.
func showUnmatched(ctx context.Context, v *OperatorVisit) (*View, error) {
	list, err := v.State.Unmatched(ctx, v.Query.Get("cursor"))
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Reports of partners that matched nothing", Empty: "No unmatched reports.", Columns: []Column{
		{Name: "Time (UTC)"}, {Name: "Partner"}, {Name: "Type"}, {Name: "Partner's id"}, {Name: "Report"}}}
	for _, r := range list.Reports {
		t.Rows = append(t.Rows, []Cell{timeCell(r.At), plainCell(r.Partner), plainCell(r.Type), codeCell(r.EventID),
			codeCell(r.ID)})
	}
	return &View{Title: "Unmatched reports", Lead: "purser unmatched --json prints their bodies.",
		Blocks: []Block{{Table: v.addPaging(t, list.Next)}}}, nil
}

// showServerWorkspaces lists the workspaces of the server.
func showServerWorkspaces(ctx context.Context, v *OperatorVisit) (*View, error) {
	list, err := v.State.Workspaces(ctx, v.Query.Get("cursor"))
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Workspaces", Empty: "No workspaces yet.", Columns: []Column{{Name: "Name"}, {Name: "Id"},
		{Name: "Mode"}, {Name: "Verification"}, {Name: "Members", Number: true}, {Name: "Keys", Number: true},
		{Name: "Created (UTC)"}}}
	for _, w := range list.Workspaces {
		t.Rows = append(t.Rows, []Cell{plainCell(w.Name), codeCell(w.ID), plainCell(inWords(w.Mode)),
			plainCell(inWords(w.KYBStatus)), plainCell(groupedCount(int64(w.Members))), plainCell(groupedCount(int64(w.Keys))),
			timeCell(w.CreatedAt)})
	}
	return &View{Title: "Workspaces", Blocks: []Block{{Table: v.addPaging(t, list.Next)}}}, nil
}

// addPaging adds the addresses of the next page and of the first to a table.
func (v *OperatorVisit) addPaging(t *Table, next string) *Table {
	t.Oldest = true
	if next != "" {
		t.Next = operatorAddress(v.Path) + "?cursor=" + url.QueryEscape(next)
	}
	if v.Query.Get("cursor") != "" {
		t.First = operatorAddress(v.Path)
	}
	return t
}

// seconds writes a duration as whole or tenths of seconds.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1f s", max(0, d).Seconds())
}

// groupedCount writes a number with a comma between thousands.
func groupedCount(n int64) string { return grouped(strconv.FormatInt(n, 10)) }
