package dashboard

import (
	"fmt"
	"time"
)

const requestsPath = "/api/dashboard/requests"

// request is an answered request of the workspace in the interface.
type request struct {
	At                           time.Time
	Method, Route, Error         string
	RequestID, KeyPrefix, UserID string
	Status                       int
}

type requestList struct {
	Data       []request
	NextCursor *string
}

// requestPages is the log of the workspace's requests.
func requestPages() []page {
	return []page{{path: "requests", access: member, section: "Request log", show: showRequests}}
}

// showRequests lists the newest requests, of all statuses or of one class.
func showRequests(v *visit) (*View, error) {
	var list requestList
	if err := v.readInto(&list, requestsPath, "status", v.Query.Get("status"), "cursor", v.Query.Get("cursor"),
		"limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Requests, newest first", Empty: "No requests since the server started.", Columns: []Column{
		{Name: "Route", Role: rolePrimary}, {Name: "Status", Role: roleAmount}, {Name: "Time (UTC)",
			Role: roleSecond}, {Name: "By"},
		{Name: "Error", Role: roleStatus}, {Name: "Request id"}}}
	for _, r := range list.Data {
		by := codeCell(r.KeyPrefix + "…")
		if r.KeyPrefix == "" {
			by = plainCell("Session")
		}
		t.Rows = append(t.Rows, []Cell{codeCell(r.Method + " " + r.Route), statusCell(r.Status), t.addDay(v.Now,
			r.At), by,
			plainCell(inWords(r.Error)), idCell(r.RequestID)})
	}
	status := Field{Name: "status", Label: "Status", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
		{Value: "2xx", Label: "2xx, done"}, {Value: "4xx", Label: "4xx, refused"}, {Value: "5xx",
			Label: "5xx, failed"}}}
	t.Filters = v.drawFilters("status", []Field{status})
	return &View{Title: "Request log", Live: v.Query.Get("cursor") == "",
		Lead:   "The last 1,000 requests with a key or a session of the workspace, without their bodies.",
		Blocks: []Block{{Table: v.addPaging(t, list.NextCursor)}, developerLinks("limits", "Limits and errors")}}, nil
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
