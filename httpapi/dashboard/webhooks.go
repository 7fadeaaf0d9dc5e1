package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	endpointsPath  = "/api/webhooks/endpoints"
	endpointPath   = endpointsPath + "/{id}"
	deliveryPath   = "/api/webhooks/deliveries/{id}"
	webhookSection = "Webhooks"
)

// maxShownAttempts bounds the attempts that a delivery's page shows, of the at most 400 in its
// record.
const maxShownAttempts = 50

// endpoint is a webhook endpoint in the interface, without its signing secret.
type endpoint struct {
	ID, URL, CreatedBy string
	Events             []string
	CreatedAt          time.Time
}

type endpointList struct {
	Data       []endpoint
	NextCursor *string
}

// delivery is the delivery of one event to one endpoint in the interface.
type delivery struct {
	ID, EndpointID, Event, Status, Failure string
	Payload                                json.RawMessage
	Attempts                               []attempt
	NextAttemptAt, CreatedAt               time.Time
	GivesUpAt                              *time.Time // end of a pending run; nil where it is not known
}

// attempt is one request to the receiver of a delivery.
type attempt struct {
	At         time.Time
	StatusCode int
	Error      string
	DurationMs int64
}

type deliveryList struct {
	Data       []delivery
	NextCursor *string
}

// webhookPages are the list of webhook endpoints, the page of one endpoint with its deliveries, and
// the page of one delivery.
func webhookPages() []page {
	return []page{
		{path: "webhooks", access: member, section: webhookSection, show: showEndpoints, actions: []action{
			{name: "create", method: "POST", path: endpointsPath, title: "New endpoint",
				submit: "Create the endpoint", show: showSigningSecret,
				fields: []Field{{Name: "url", Label: "URL", Kind: fieldText, Required: true,
					Hint: "https on port 443 or 8443 of a public address."},
					{Name: "events", Label: "Events", Kind: fieldChecks, Required: true, Options: []Option{
						{Value: "checkout.session.completed", Label: "Payment link paid",
							Hint: "checkout.session.completed"},
						{Value: "*", Label: "All events", Hint: "Also those of later versions"}}}}},
		}},
		{path: "webhooks/{id}", access: member, section: webhookSection, show: showEndpoint, actions: []action{
			{name: "ping", method: "POST", path: endpointPath + "/test", submit: "Send an example",
				then: afterDelivery},
			{name: "delete", method: "DELETE", path: endpointPath, submit: "Delete the endpoint",
				danger: "Delete the endpoint? Its pending deliveries are dropped.",
				then:   func(v *visit, _ []byte) (string, error) { return v.addressOf("webhooks"), nil }},
		}},
		{path: "webhooks/deliveries/{id}", access: member, section: webhookSection, show: showDelivery,
			actions: []action{{name: "resend", method: "POST", path: deliveryPath + "/replay",
				submit: "Send it again",
				done:   "The delivery is sent again, with the same body and the same webhook-id."}}},
	}
}

// eventNames name the types of events in words.
var eventNames = map[string]string{"checkout.session.completed": "Payment link paid", "ping": "Example",
	"*": "All events"}

// eventNamesOf names the events that an endpoint gets.
func eventNamesOf(events []string) string {
	names := make([]string, len(events))
	for i, event := range events {
		names[i] = nameOf(eventNames, event)
	}
	return strings.Join(names, ", ")
}

// newestDelivery reads the newest delivery of an endpoint. It is nil for an endpoint without one.
func (v *visit) newestDelivery(endpoint string) (*delivery, error) {
	var list deliveryList
	err := v.readInto(&list, endpointPath+"/deliveries", "id", endpoint, "limit", "1")
	if err != nil || len(list.Data) == 0 {
		return nil, err
	}
	return &list.Data[0], nil
}

// endpointState is a cell of the state of an endpoint: that of its newest delivery, or nil.
func endpointState(newest *delivery) Cell {
	switch {
	case newest == nil:
		return namedState("", "Not used yet")
	case newest.hasFailed():
		return namedState("failed", "Failing")
	case newest.Status == "pending":
		return namedState("processing", "Sending")
	}
	return namedState("delivered", "Delivering")
}

// showEndpoints lists the endpoints, newest first, with the state of the newest delivery of each.
// A workspace has at most 16 endpoints.
func showEndpoints(v *visit) (*View, error) {
	var list endpointList
	if err := v.readInto(&list, endpointsPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Webhooks, newest first", Empty: "No endpoints yet.", Columns: []Column{
		{Name: "URL", Role: rolePrimary}, {Name: "Events", Role: roleSecond}, {Name: "State", Role: roleAmount},
		{Name: "Newest delivery", Role: roleStatus}, {Name: "Made by"}, {Name: "Created"}}}
	makerOf := v.makerCells()
	for _, e := range list.Data {
		maker, err := makerOf(e.CreatedBy)
		if err != nil {
			return nil, err
		}
		newest, err := v.newestDelivery(e.ID)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, []Cell{linkCell(e.URL, v.addressOf("webhooks", e.ID)),
			plainCell(eventNamesOf(e.Events)), endpointState(newest), plainCell(newest.lastResult()), maker,
			v.dateCell(e.CreatedAt)})
	}
	forms, err := v.drawForms("create")
	view := &View{Title: webhookSection, Lead: "Purser posts each event to your endpoints, signed.", Live: true,
		Blocks: append(append([]Block{{Table: v.addPaging(t, list.NextCursor)}}, forms...),
			developerLinks("webhooks", "Webhooks and reports"))}
	if len(forms) > 0 {
		view.Ways = []Way{{Link: Link{"New endpoint", "#f-url"}, Icon: "plus"}}
	}
	return view, err
}

// showSigningSecret shows the signing secret of a new endpoint, which no later answer shows.
func showSigningSecret(v *visit, body []byte) (*View, error) {
	var made struct {
		Endpoint endpoint
		Secret   string
	}
	if err := json.Unmarshal(body, &made); err != nil {
		return nil, err
	}
	link := Link{"The endpoint", v.addressOf("webhooks", made.Endpoint.ID)}
	return &View{Title: "The endpoint is created", Lead: made.Endpoint.URL, Up: &link, Ways: []Way{{Link: link}},
		Notice: &Notice{Text: "Copy the signing secret now. It is shown only this once."},
		Blocks: []Block{{Code: &Code{ID: "secret", Label: "Signing secret", Text: made.Secret}},
			{Heading: "Signature", More: &Link{"How to verify it", verifyGuide},
				Text: "Each delivery has the header service-signature: t=<unix>,v1=<hex>, the HMAC-SHA256 of " +
					"<t>.<body> under this secret."}}}, nil
}

// deliveryFilters are the parameters of deliveries in the interface and in the page's address.
var deliveryFilters = []string{"status", "from", "to"}

// showEndpoint shows one endpoint and the deliveries that the address selects, newest first. While
// the newest delivery fails it says why, and what to do.
func showEndpoint(v *visit) (*View, error) {
	var shown struct{ Endpoint endpoint }
	if err := v.readInto(&shown, endpointPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	newest, err := v.newestDelivery(v.recordID())
	if err != nil {
		return nil, err
	}
	deliveries, err := endpointDeliveries(v)
	if err != nil {
		return nil, err
	}
	e := &shown.Endpoint
	maker, err := v.makerCells()(e.CreatedBy)
	if err != nil {
		return nil, err
	}
	view := &View{Title: e.hostName(), Badges: []Cell{endpointState(newest)},
		Lead: eventNamesOf(e.Events) + ", since " + e.CreatedAt.UTC().Format("2 January 2006"),
		Up:   &Link{webhookSection, v.addressOf("webhooks")}, Live: v.Query.Get("cursor") == ""}
	for _, name := range []string{"delete", "ping"} {
		form, err := v.drawForm(name)
		if err != nil {
			return nil, err
		}
		if form != nil {
			form.Quiet, form.Primary = true, !form.Danger
			view.Forms = append(view.Forms, form)
		}
	}
	details := Block{Heading: "Details", Panel: true, Facts: []Fact{{"URL", codeCell(e.URL)},
		{"Events", plainCell(eventNamesOf(e.Events))}, {"Made by", maker}, {"Created", timeCell(e.CreatedAt)},
		{"Id", idCell(e.ID)}, {"Signature", linkCell("How to verify it", verifyGuide)}}}
	main := append(newest.failureBlocks(), deliveries)
	view.Blocks = []Block{{Columns: &Columns{MainSide, main, []Block{details}}}}
	return view, nil
}

// verifyGuide is the part of the guide that verifies the signature of a delivery.
const verifyGuide = "/docs/webhooks#verify-the-signature-of-a-delivery"

// endpointDeliveries draws the deliveries of the endpoint of the page.
func endpointDeliveries(v *visit) (Block, error) {
	params := []string{"id", v.recordID(), "cursor", v.Query.Get("cursor"), "limit", "50"}
	for _, name := range deliveryFilters {
		params = append(params, name, v.Query.Get(name))
	}
	var list deliveryList
	if err := v.readInto(&list, endpointPath+"/deliveries", params...); err != nil {
		return Block{}, err
	}
	t := deliveryTable(v, list.Data)
	t.Filters = v.drawFilters("status", []Field{
		{Name: "status", Label: "State", Kind: fieldChoice, Options: choices("pending", "delivered", "failed")},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
	})
	t.Empty = emptyText("Nothing has been delivered yet. Send an example to try the endpoint.", t.Filters.Clear != "",
		list.NextCursor)
	return Block{Table: v.addPaging(t, list.NextCursor)}, nil
}

// hostName is the host of the endpoint's URL, or the URL when it has none.
func (e *endpoint) hostName() string {
	if u, err := url.Parse(e.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return e.URL
}

// deliveryTable draws deliveries under headings of their days, with the result of the newest
// attempt of each.
func deliveryTable(v *visit, deliveries []delivery) *Table {
	t := &Table{Caption: "Deliveries, newest first", Columns: []Column{{Name: "Time (UTC)", Role: roleSecond},
		{Name: "Event", Role: rolePrimary}, {Name: "State", Role: roleAmount}, {Name: "Last result",
			Role: roleStatus},
		{Name: "Attempts", Number: true}}}
	for i := range deliveries {
		d := &deliveries[i]
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, d.CreatedAt), linkCell(nameOf(eventNames, d.Event),
			v.addressOf("webhooks", "deliveries", d.ID)), d.stateCell(), plainCell(d.lastResult()),
			plainCell(fmt.Sprint(len(d.Attempts)))})
	}
	return t
}

// stateCell is a cell of the delivery's state. A pending one that was tried is retried.
func (d *delivery) stateCell() Cell {
	switch {
	case d.Status == "pending" && len(d.Attempts) == 0:
		return namedState("processing", "Sending")
	case d.Status == "pending":
		return namedState("pending", "Retrying")
	}
	return stateCell(d.Status)
}

// last returns the newest attempt, or nil.
func (d *delivery) last() *attempt {
	if d == nil || len(d.Attempts) == 0 {
		return nil
	}
	return &d.Attempts[len(d.Attempts)-1]
}

// lastResult returns the result of the newest attempt, or why there is none.
func (d *delivery) lastResult() string {
	switch {
	case d.last() != nil:
		return d.last().result()
	case d != nil && d.Failure != "":
		return nameOf(deliveryFailures, d.Failure)
	}
	return ""
}

// failureBlocks say why a delivery fails, what to do about it, when the next attempt comes and when
// Purser gives up. There is none for a delivery that does not fail.
func (d *delivery) failureBlocks() []Block {
	if d == nil || !d.hasFailed() {
		return nil
	}
	fact, advice := "The newest delivery was not tried: ", deliveryAdvice[d.Failure]
	if last := d.last(); last != nil {
		fact, advice = "The newest attempt failed: ", last.adviceText()
	}
	return []Block{{Notice: &Notice{Refused: true, Fact: fact + d.lastResult() + ".",
		Text: advice + " " + d.scheduleText()}}}
}

// scheduleText says when a delivery is tried again and, if the record has it, until when.
func (d *delivery) scheduleText() string {
	if d.Status != "pending" {
		return "Purser has given up: send the delivery again from its page afterwards."
	}
	text := "The next attempt comes on " + momentText(d.NextAttemptAt)
	if d.GivesUpAt != nil {
		text += ", and Purser gives up by " + momentText(*d.GivesUpAt)
	}
	return text + "."
}

// momentText writes a time within a sentence.
func momentText(at time.Time) string { return at.UTC().Format("2 January 2006 at 15:04:05") + " UTC" }

// attemptErrors are the reasons in words for which an attempt got no answer.
var attemptErrors = map[string]string{"address_refused": "The URL leads to an address that is not public",
	"dns": "The name was not found", "connect": "No connection", "tls": "No TLS connection",
	"timeout": "No answer within 10 s", "connection": "The connection broke"}

// errorAdvice is what a person can do about an attempt that got no answer.
var errorAdvice = map[string]string{
	"address_refused": "Let the name lead to a public address, or make an endpoint with another URL.",
	"dns":             "Check the name in the URL and its DNS records.",
	"connect":         "Check that the server runs, and that its firewall lets connections to the port in.",
	"tls":             "Serve a certificate that is valid for the name and not expired, with its whole chain.",
	"timeout":         "Store the event, answer 200 at once, and do the work afterwards.",
	"connection":      "Check that the server speaks HTTP over TLS on this port, and that no proxy ends the connection.",
}

// statusAdvice is what a person can do about an answer, by its status or its class.
var statusAdvice = map[int]string{
	3:   "Purser follows no redirect. Make an endpoint with the address that the answer leads to.",
	4:   "The server refuses the request. Look into its log for the webhook-id of the delivery.",
	5:   "The server fails. Look into its log at the time of the attempt.",
	401: "Let the requests in without a login, and verify their signature instead.",
	403: "Let the requests in without a login, and verify their signature instead. A firewall may also refuse them.",
	404: "Check the path of the URL: the server has nothing there.",
	405: "Let the path take POST.",
	410: "The server says that the endpoint is gone. Delete it here if that is meant.",
	429: "The server limits requests. Raise its limit for Purser.",
}

// adviceText returns what a person can do about an attempt that failed.
func (a *attempt) adviceText() string {
	if a.StatusCode == 0 {
		return errorAdvice[a.Error]
	}
	return cmp.Or(statusAdvice[a.StatusCode], statusAdvice[a.StatusCode/100], "Answer with a status from 200 to 299.")
}

// isDelivered reports whether the receiver took the delivery.
func (a *attempt) isDelivered() bool { return a.StatusCode >= 200 && a.StatusCode <= 299 }

// result returns the receiver's status, or the reason in words for which there is none.
func (a *attempt) result() string {
	if a.StatusCode != 0 {
		return strings.TrimSpace(fmt.Sprintf("%d %s", a.StatusCode, http.StatusText(a.StatusCode)))
	}
	return nameOf(attemptErrors, a.Error)
}

// showDelivery shows one delivery, its body as it is sent, and its newest attempts. A finished
// delivery can be sent again.
func showDelivery(v *visit) (*View, error) {
	var shown struct{ Delivery delivery }
	if err := v.readInto(&shown, deliveryPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	d := &shown.Delivery
	view := &View{Title: nameOf(eventNames, d.Event), Badges: []Cell{d.stateCell()},
		Lead: d.Event + ", " + momentText(d.CreatedAt),
		Up:   &Link{"The endpoint", v.addressOf("webhooks", d.EndpointID)}, Live: d.Status == "pending"}
	if d.Status != "pending" {
		form, err := v.drawForm("resend")
		if err != nil {
			return nil, err
		}
		if form != nil {
			view.Forms = []*Form{form}
		}
	}
	facts := []Fact{{"Event", codeCell(d.Event)}, {"Created", timeCell(d.CreatedAt)}}
	if d.Status == "pending" {
		facts = append(facts, Fact{"Next attempt", timeCell(d.NextAttemptAt)})
	}
	if d.Failure != "" {
		facts = append(facts, Fact{"Reason", plainCell(nameOf(deliveryFailures, d.Failure))})
	}
	details := Block{Heading: "Details", Panel: true, Facts: append(facts, Fact{"webhook-id", idCell(d.ID)},
		Fact{"Signature", linkCell("How to verify it", verifyGuide)})}
	main := append(d.failureBlocks(), Block{Table: attemptTable(d.Attempts)}, Block{Heading: "Body",
		Code: &Code{ID: "body", Label: "The JSON that is posted", Language: "json", Text: string(d.Payload)}})
	view.Blocks = []Block{{Columns: &Columns{MainSide, main, []Block{details}}}}
	return view, nil
}

// deliveryFailures are the reasons in words for which a delivery failed, and deliveryAdvice is what
// a person can do when it was not tried.
var (
	deliveryFailures = map[string]string{"gave_up": "Three days passed without a 2xx answer",
		"backlog_full": "500 other deliveries were pending"}
	deliveryAdvice = map[string]string{"backlog_full": "Let the endpoint answer again, then send the delivery again."}
)

// attemptTable draws the newest attempts, newest first.
func attemptTable(attempts []attempt) *Table {
	t := &Table{Caption: fmt.Sprintf("Attempts (%d), newest first", len(attempts)), Empty: "No attempt yet.",
		Columns: []Column{{Name: "Time (UTC)", Role: roleSecond}, {Name: "Result", Role: rolePrimary},
			{Name: "Duration", Number: true, Role: roleStatus}}}
	for i := len(attempts) - 1; i >= max(0, len(attempts)-maxShownAttempts); i-- {
		a := &attempts[i]
		state := "failed"
		if a.isDelivered() {
			state = "delivered"
		}
		t.Rows = append(t.Rows, []Cell{timeCell(a.At), namedState(state, a.result()),
			durationCell(a.DurationMs)})
	}
	return t
}

// afterDelivery returns the address of the page of a new delivery.
func afterDelivery(v *visit, answered []byte) (string, error) {
	var made struct{ Delivery delivery }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("webhooks", "deliveries", made.Delivery.ID), err
}
