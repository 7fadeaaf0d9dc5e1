package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
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
						{Value: "checkout.session.completed", Label: "checkout.session.completed",
							Hint: "A payment link is paid"},
						{Value: "*", Label: "*", Hint: "All events, also those of later versions"}}}}},
		}},
		{path: "webhooks/{id}", access: member, section: webhookSection, show: showEndpoint, actions: []action{
			{name: "ping", method: "POST", path: endpointPath + "/test", submit: "Send a ping",
				then: afterDelivery},
			{name: "delete", method: "DELETE", path: endpointPath, submit: "Delete the endpoint",
				danger: "Delete the endpoint? Its pending deliveries are dropped.",
				then:   func(v *visit, _ []byte) (string, error) { return v.addressOf("webhooks"), nil }},
		}},
		{path: "webhooks/deliveries/{id}", access: member, section: webhookSection, show: showDelivery,
			actions: []action{{name: "resend", method: "POST", path: deliveryPath + "/replay", submit: "Send it again",
				done: "The delivery is sent again, with the same body and the same webhook-id."}}},
	}
}

// showEndpoints lists the endpoints, newest first.
func showEndpoints(v *visit) (*View, error) {
	var list endpointList
	if err := v.readInto(&list, endpointsPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Webhook endpoints, newest first", Empty: "No endpoints yet.", Columns: []Column{
		{Name: "URL"}, {Name: "Events"}, {Name: "Made by"}, {Name: "Created (UTC)"}}}
	makerOf := v.makerCells()
	for _, e := range list.Data {
		maker, err := makerOf(e.CreatedBy)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, []Cell{linkCell(e.URL, v.addressOf("webhooks", e.ID)),
			plainCell(strings.Join(e.Events, ", ")), maker, timeCell(e.CreatedAt)})
	}
	forms, err := v.drawForms("create")
	return &View{Title: webhookSection, Lead: "Purser posts each event to your endpoints, signed.",
		Blocks: append(append([]Block{{Table: v.addPaging(t, list.NextCursor)}}, forms...),
			developerLinks("webhooks", "Webhooks and reports"))}, err
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
	return &View{Title: "The endpoint is created", Up: &Link{"The endpoint", v.addressOf("webhooks", made.Endpoint.ID)},
		Notice: &Notice{Text: "Copy the signing secret now. It is shown only this once."},
		Blocks: []Block{{Code: &Code{ID: "secret", Label: made.Endpoint.URL, Text: made.Secret}},
			{Text: "Each delivery has the header service-signature: t=<unix>,v1=<hex>, the HMAC-SHA256 of " +
				"<t>.<body> under this secret."}}}, nil
}

// showEndpoint shows one endpoint and its deliveries, newest first.
func showEndpoint(v *visit) (*View, error) {
	var shown struct{ Endpoint endpoint }
	if err := v.readInto(&shown, endpointPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	var list deliveryList
	if err := v.readInto(&list, endpointPath+"/deliveries", "id", v.recordID(), "cursor", v.Query.Get("cursor"),
		"limit", "50"); err != nil {
		return nil, err
	}
	e := &shown.Endpoint
	maker, err := v.makerCells()(e.CreatedBy)
	if err != nil {
		return nil, err
	}
	view := &View{Title: "Webhook endpoint", Lead: e.URL, Up: &Link{webhookSection, v.addressOf("webhooks")},
		Live: v.Query.Get("cursor") == "", Blocks: []Block{{Facts: []Fact{
			{"Events", plainCell(strings.Join(e.Events, ", "))}, {"Created (UTC)", timeCell(e.CreatedAt)},
			{"Made by", maker}, {"Id", codeCell(e.ID)}}}}}
	buttons, err := v.drawButtons("ping", "delete")
	if err != nil {
		return nil, err
	}
	view.Blocks = append(view.Blocks, buttons...)
	t := deliveryTable(v, list.Data)
	view.Blocks = append(view.Blocks, Block{Table: v.addPaging(t, list.NextCursor)})
	return view, nil
}

// deliveryTable draws deliveries with the result of the newest attempt of each.
func deliveryTable(v *visit, deliveries []delivery) *Table {
	t := &Table{Caption: "Deliveries, newest first", Empty: "Nothing has been delivered yet.", Columns: []Column{
		{Name: "Time (UTC)"}, {Name: "Event"}, {Name: "State"}, {Name: "Attempts", Number: true},
		{Name: "Last result"}, {Name: "Next attempt (UTC)"}}}
	for _, d := range deliveries {
		last := Cell{}
		if n := len(d.Attempts); n > 0 {
			last = plainCell(d.Attempts[n-1].result())
		}
		t.Rows = append(t.Rows, []Cell{timeCell(d.CreatedAt), linkCell(d.Event, v.addressOf("webhooks", "deliveries",
			d.ID)), stateCell(d.Status), plainCell(fmt.Sprint(len(d.Attempts))), last, timeCell(d.NextAttemptAt)})
	}
	return t
}

// attemptErrors are the reasons in words for which an attempt got no answer.
var attemptErrors = map[string]string{"address_refused": "The URL leads to an address that is not public",
	"dns": "The name was not found", "connect": "No connection", "tls": "No TLS connection",
	"timeout": "No answer within 10 s", "connection": "The connection broke"}

// result returns the receiver's status, or the reason in words for which there is none.
func (a *attempt) result() string {
	if a.StatusCode != 0 {
		return fmt.Sprintf("%d %s", a.StatusCode, http.StatusText(a.StatusCode))
	}
	if text := attemptErrors[a.Error]; text != "" {
		return text
	}
	return inWords(a.Error)
}

// showDelivery shows one delivery, its body as it is sent, and its newest attempts. A finished
// delivery can be sent again.
func showDelivery(v *visit) (*View, error) {
	var shown struct{ Delivery delivery }
	if err := v.readInto(&shown, deliveryPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	d := &shown.Delivery
	view := &View{Title: "Delivery", Lead: d.Event, Up: &Link{"The endpoint", v.addressOf("webhooks", d.EndpointID)},
		Live: d.Status == "pending"}
	facts := []Fact{{"State", stateCell(d.Status)}}
	if d.Failure != "" {
		facts = append(facts, Fact{"Reason", plainCell(deliveryFailures[d.Failure])})
	}
	facts = append(facts, Fact{"Created (UTC)", timeCell(d.CreatedAt)},
		Fact{"Next attempt (UTC)", timeCell(d.NextAttemptAt)}, Fact{"Id, the header webhook-id", codeCell(d.ID)})
	view.Blocks = append(view.Blocks, Block{Facts: facts})
	if d.Status != "pending" {
		buttons, err := v.drawButtons("resend")
		if err != nil {
			return nil, err
		}
		view.Blocks = append(view.Blocks, buttons...)
	}
	view.Blocks = append(view.Blocks, Block{Table: attemptTable(d.Attempts)},
		Block{Heading: "Body", Code: &Code{ID: "body", Label: "The JSON that is posted", Language: "json",
			Text: string(d.Payload)}})
	return view, nil
}

// deliveryFailures are the reasons in words for which a delivery failed.
var deliveryFailures = map[string]string{"gave_up": "Three days passed without a 2xx answer",
	"backlog_full": "500 other deliveries were pending"}

// attemptTable draws the newest attempts, newest first.
func attemptTable(attempts []attempt) *Table {
	t := &Table{Caption: fmt.Sprintf("Attempts (%d), newest first", len(attempts)), Empty: "No attempt yet.",
		Columns: []Column{{Name: "Time (UTC)"}, {Name: "Result"}, {Name: "Duration", Number: true}}}
	for i := len(attempts) - 1; i >= max(0, len(attempts)-maxShownAttempts); i-- {
		a := &attempts[i]
		tone := "bad"
		if a.StatusCode >= 200 && a.StatusCode <= 299 {
			tone = "good"
		}
		t.Rows = append(t.Rows, []Cell{timeCell(a.At), {Text: a.result(), Tone: tone},
			plainCell(fmt.Sprintf("%d ms", a.DurationMs))})
	}
	return t
}

// afterDelivery returns the address of the page of a new delivery.
func afterDelivery(v *visit, answered []byte) (string, error) {
	var made struct{ Delivery delivery }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("webhooks", "deliveries", made.Delivery.ID), err
}
