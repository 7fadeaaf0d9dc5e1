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
	"purser/persistence/money"
)

// OperatorRoot is the path of the operator's pages, on the admin port.
const OperatorRoot = "/operator"

// OperatorSignIn is the path of the sign-in, relative to OperatorRoot, of its page and its form.
const OperatorSignIn = "sign-in"

// OperatorSecretField is the field of the sign-in that holds the secret.
const OperatorSecretField = "secret"

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

	Disks []DiskSpace // valid at any time
}

// DiskSpace is the free space for the directory of a store, with its unit, such as 12.5 GiB. Below
// Kept approvals stop; from Resumes on they go on.
type DiskSpace struct {
	Store, Dir, Free, Kept, Resumes string
	Scarce                          bool // approvals have stopped
	Unknown                         bool // the disk could not be measured
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
	name, path, icon string
	show             func(context.Context, *OperatorVisit) (*View, error)
}

var operatorPages = []operatorPage{
	{"Health", "", "log", showServer}, {"Unmatched", "unmatched", "alert", showUnmatched},
	{"Workspaces", "workspaces", "people", showServerWorkspaces},
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
	view := &View{Title: "Operator", Lead: "The state of this server.", Blocks: []Block{{Form: form}},
		Door: []Block{{Heading: "What these pages show", Steps: []Step{
			{Name: "What waits for a person", Text: "Overdue orders, workspaces set aside, findings of the last audit."},
			{Name: "How far the stores are apart", Text: "The backlog in dollars, the lags, the free space of the disks."},
			{Name: "The command beside each figure", Text: "The pages only read. A command on the server's machine acts."}}}}}
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
	nameTables(view.Title, view.Blocks)
	f := frame{View: view, Visit: &Visit{}, Home: OperatorRoot, Operator: true, SignedIn: v.SignedIn}
	if v.SignedIn {
		var pages navigationGroup
		for i := range operatorPages {
			p := &operatorPages[i]
			pages.Entries = append(pages.Entries, navigation{Link: Link{p.name, operatorAddress(p.path)},
				Icon:    p.icon,
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

// showUnmatched lists the reports of partners that matched nothing.
func showUnmatched(ctx context.Context, v *OperatorVisit) (*View, error) {
	list, err := v.State.Unmatched(ctx, v.Query.Get("cursor"))
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Unmatched reports", Empty: "No unmatched reports. A report of a partner that fits no order " +
		"appears here.", Columns: []Column{{Name: "Type", Role: rolePrimary}, {Name: "Partner", Role: roleSecond},
		{Name: "Partner's id", Role: roleSecond}, {Name: "Report"}, {Name: "Time (UTC)", Role: roleStatus}}}
	for _, r := range list.Reports {
		t.Rows = append(t.Rows, []Cell{plainCell(r.Type), plainCell(r.Partner), codeCell(r.EventID), idCell(r.ID),
			timeCell(r.At)})
	}
	return &View{Title: "Unmatched reports",
		Lead:   "Partners sent them, and no order fits. The command prints their bodies.",
		Blocks: []Block{commandBlock("unmatched --json"), {Table: v.addPaging(t, list.Next)}}}, nil
}

// showServerWorkspaces lists the workspaces of the server.
func showServerWorkspaces(ctx context.Context, v *OperatorVisit) (*View, error) {
	list, err := v.State.Workspaces(ctx, v.Query.Get("cursor"))
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Workspaces", Empty: "No workspaces yet. The dashboard creates the first.",
		Columns: []Column{
			{Name: "Name", Role: rolePrimary}, {Name: "Id", Role: roleSecond}, {Name: "Mode", Role: roleStatus},
			{Name: "Verification"}, {Name: "Members", Number: true}, {Name: "Keys", Number: true},
			{Name: "Created (UTC)"}}}
	for _, w := range list.Workspaces {
		t.Rows = append(t.Rows, []Cell{plainCell(w.Name), idCell(w.ID), plainCell(inWords(w.Mode)),
			plainCell(inWords(w.KYBStatus)), plainCell(groupedCount(int64(w.Members))),
			plainCell(groupedCount(int64(w.Keys))),
			timeCell(w.CreatedAt)})
	}
	return &View{Title: "Workspaces", Lead: "The command names those whose decisions the journal refuses, and why.",
		Blocks: []Block{commandBlock("relay list"), {Table: v.addPaging(t, list.Next)}}}, nil
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
