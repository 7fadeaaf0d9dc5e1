package dashboard

import (
	"fmt"
	"strings"
	"time"
)

const requestsPath = "/api/dashboard/requests"

// request is an answered request of the workspace in the interface.
type request struct {
	At                           time.Time
	Method, Route, Error         string
	RequestID, KeyPrefix, UserID string
	Status                       int
	DurationMs                   int64
}

type requestList struct {
	Data       []request
	NextCursor *string
}

// requestPages is the log of the workspace's requests.
func requestPages() []page {
	return []page{{path: "requests", access: member, section: "Request log", show: showRequests}}
}

// showRequests lists the newest requests that the address selects.
func showRequests(v *visit) (*View, error) {
	fields := requestFilters()
	params := []string{"cursor", v.Query.Get("cursor"), "limit", "50"}
	for _, f := range fields {
		params = append(params, f.Name, strings.TrimSpace(v.Query.Get(f.Name)))
	}
	var list requestList
	if err := v.readInto(&list, requestsPath, params...); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Request log, newest first", Empty: "No requests since the server started.",
		Columns: []Column{
			{Name: "Time (UTC)", Role: roleSecond}, {Name: "Route", Role: rolePrimary}, {Name: "Status",
				Role: roleAmount},
			{Name: "Error", Role: roleStatus}, {Name: "By"}, {Name: "Duration", Number: true},
			{Name: "Request id", Role: roleSecond}}}
	for _, r := range list.Data {
		by := Cell{Text: r.KeyPrefix + "…", Href: v.addressWith("keyPrefix", r.KeyPrefix, "cursor", "")}
		if r.KeyPrefix == "" {
			by = plainCell("Session")
		}
		errorCell := Cell{Text: errorWords(r.Error)}
		if r.Error != "" {
			errorCell.Href = v.addressWith("error", r.Error, "cursor", "")
		}
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, r.At), codeCell(r.Method + " " + r.Route),
			statusCell(r.Status),
			errorCell, by, durationCell(r.DurationMs), idCell(r.RequestID)})
	}
	t.Filters = v.drawFilters("status", fields)
	t.Empty = emptyText(t.Empty, t.Filters.Clear != "", list.NextCursor)
	return &View{Title: "Request log", Live: v.Query.Get("cursor") == "",
		Lead:   "The last 1,000 requests with a key or a session of the workspace, without their bodies.",
		Blocks: []Block{{Table: v.addPaging(t, list.NextCursor)}, developerLinks("limits", "Limits and errors")}}, nil
}

// errorWords writes an error's code in words. The scope that a code names stays as it is.
func errorWords(code string) string {
	name, scope, _ := strings.Cut(code, ":")
	return strings.TrimSpace(inWords(name) + " " + scope)
}

// durationCell is a cell of milliseconds.
func durationCell(ms int64) Cell {
	if ms == 0 {
		return plainCell("<1 ms")
	}
	return plainCell(fmt.Sprintf("%d ms", ms))
}

// requestFilters are the fields of the log's filters.
func requestFilters() []Field {
	methods := []Option{{Value: "", Label: "All"}}
	for _, name := range []string{"GET", "POST", "PATCH", "DELETE"} {
		methods = append(methods, Option{Value: name, Label: name})
	}
	return []Field{
		{Name: "status", Label: "Status", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "2xx", Label: "2xx, done"}, {Value: "4xx", Label: "4xx, refused"},
			{Value: "5xx", Label: "5xx, failed"}}},
		{Name: "route", Label: "Route begins with", Kind: fieldText, Chip: "Route"},
		{Name: "method", Label: "Method", Kind: fieldChoice, Options: methods},
		{Name: "error", Label: "Error code", Kind: fieldText, Chip: "Error"},
		{Name: "keyPrefix", Label: "First characters of the key", Kind: fieldText, Chip: "Key",
			Hint: "Such as apk_f96dxg54, never the whole key."},
		{Name: "requestId", Label: "Request id", Kind: fieldText},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
	}
}

// statusCell is a cell of the status of an answer.
func statusCell(status int) Cell {
	l := look{"good", "check"}
	switch {
	case status >= statusInternal:
		l = look{"bad", "cross"}
	case status >= 400:
		l = look{"warn", "alert"}
	}
	return Cell{Text: fmt.Sprint(status), Tone: l.tone, Icon: l.icon}
}

// developerLinks leads to a guide and to the reference of the interface.
func developerLinks(guide, title string) Block {
	return Block{Facts: []Fact{{"Guide", linkCell(title, "/docs/"+guide)},
		{"API reference", linkCell("All routes", "/docs/api")},
		{"Description for programs", linkCell("openapi.json", "/api/v1/openapi.json")}}}
}
