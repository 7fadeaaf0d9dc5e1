package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// API runs operations of the REST interface for one request of a browser.
type API interface {
	// Do runs an operation as the session of the request. The answer is what a program would get.
	// An answer that starts or ends a session changes the browser's cookie.
	Do(Operation) Answer
	// May reports whether the session's role in the workspace permits an operation.
	May(method, path string) bool
	// NewKey draws an Idempotency-Key for a form. It fails only without entropy.
	NewKey() (string, error)
}

// Operation is a request of the REST interface. Path is the path of the description, such as
// /api/cards/{id}; Params fills its parameters.
type Operation struct {
	Method, Path  string
	Params, Query map[string]string
	Body          any    // marshalled as JSON; nil for none
	Key           string // the Idempotency-Key, or ""
}

// Answer is the answer of an operation. A refusal has a Code.
type Answer struct {
	Status        int
	Body          []byte
	Code, Message string
	Wait          time.Duration // the shortest useful wait before a retry; 0 gives no advice
	File          *File         // of a body that is not JSON, or nil
}

// File is the media type and the name of a body that the browser saves.
type File struct{ Type, Name string }

// Visit is a request of a browser for a page, or of a form.
type Visit struct {
	Method    string
	Path      string // behind Root, without a slash at either end
	Query     url.Values
	Form      url.Values
	API       API
	Email     string // the signed-in user's; "" without a session
	Workspace string // of the path; "" outside of a workspace
	Name      string // of the workspace
	Role      string
	Sandbox   bool
	Now       time.Time
	BaseURL   string // the REST interface's
	// IntentProgram is the guide's program for the shell that signs an intent of an agent.
	IntentProgram string
	Position      uint64 // the workspace's newest event; a live page asks for later ones
	// Workspaces are others of the user to switch to, at most MaxSwitch; the page of workspaces
	// lists all.
	Workspaces []Link
}

// MaxSwitch bounds the workspaces that the header offers.
const MaxSwitch = 20

// refusal is a refused operation, or a page that is not there.
type refusal struct {
	status        int
	code, message string
	wait          time.Duration
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

// moved leads the browser to another address of the page, such as one without empty parameters.
type moved struct{ location string }

func (m *moved) Error() string { return "moved to " + m.location }

// download is an answer that the browser saves as a file, in place of a page.
type download struct{ answered Answer }

func (d *download) Error() string { return "a file in place of a page" }

// visit is a Visit of a known page, with the state of a form that was refused.
type visit struct {
	*Visit
	page    *page
	params  map[string]string   // by name, from the page's path
	failed  string              // the action that was refused, or ""
	problem string              // the reason, in words
	wrong   map[string]string   // the reasons in words by the fields that they name
	filled  map[string]string   // values of fresh forms, by action/field
	again   bool                // the refused form keeps its key
	drawn   bool                // the refused form is drawn
	target  string              // the id of the operation's record when it is not the page's; an action's body sets it
	fields  map[string]bool     // the names of the fields that are drawn
	offered map[string][]Option // options of choices that the page reads, by action/field
	waits   map[string][]Stat   // the waiting records by section, as far as they were read
}

// recordID returns the id of the record that the page shows, from its path.
func (v *visit) recordID() string { return v.params["id"] }

// addressOf returns the address of a page of the workspace.
func (v *visit) addressOf(parts ...string) string {
	address := Root + "/" + v.Workspace
	for _, part := range parts {
		address += "/" + url.PathEscape(part)
	}
	return address
}

// ownAddress returns the address of the page itself, without its query.
func (v *visit) ownAddress() string { return strings.TrimSuffix(Root+"/"+v.Path, "/") }

// addressWith returns the address of the page with some parameters of its query replaced; an empty
// value removes one.
func (v *visit) addressWith(pairs ...string) string {
	query := url.Values{}
	for name, values := range v.Query {
		if name != doneParameter && len(values) > 0 {
			query.Set(name, values[0])
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		query.Del(pairs[i])
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return v.ownAddress()
	}
	return v.ownAddress() + "?" + query.Encode()
}

// readInto runs a GET and decodes its answer. params are pairs of the name and value of a path's or
// a query's parameter; an empty value is left out. It fails with the operation's refusal.
func (v *visit) readInto(into any, path string, params ...string) error {
	op := Operation{Method: "GET", Path: path, Params: map[string]string{}, Query: map[string]string{}}
	for i := 0; i < len(params); i += 2 {
		name, value := params[i], params[i+1]
		switch {
		case strings.Contains(path, "{"+name+"}"):
			op.Params[name] = value
		case value != "":
			op.Query[name] = value
		}
	}
	a := v.API.Do(op)
	if a.Code != "" {
		return &refusal{a.Status, a.Code, a.Message, a.Wait}
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("answer of %s: %w", path, err)
	}
	return nil
}

// oncePerID returns read, which then reads each id of a list's rows once.
func oncePerID(read func(id string) (Cell, error)) func(id string) (Cell, error) {
	cells := map[string]Cell{}
	return func(id string) (cell Cell, err error) {
		cell, known := cells[id]
		if !known {
			cell, err = read(id)
			cells[id] = cell
		}
		return cell, err
	}
}

// isMissing reports whether a read failed because the record is not there.
func isMissing(err error) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.status == statusNotFound
}

// addPaging adds the parameters of the page's address to a table: the next page behind the cursor,
// and the first page.
func (v *visit) addPaging(t *Table, next *string) *Table {
	if next != nil {
		t.Next = v.addressWith("cursor", *next)
	}
	if v.Query.Get("cursor") != "" {
		t.First = v.addressWith("cursor", "")
	}
	return t
}
