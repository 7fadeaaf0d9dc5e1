package balance

import (
	"fmt"
	"net/url"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// maxHostedURL bounds the address of a session's page, in bytes.
const maxHostedURL = 2048

// Where sessions are claimed, once and for ever: when they are brought over, and by the report that ends them. They are records
// alone, and the state does not tell a repeat.
const (
	scopeRampImport  = "ramp_session_import"
	scopeRampSession = "ramp_session"
)

func (r *RampSession) open() bool { return r.Status == RampCreated || r.Status == RampProcessing }

// Check refuses what no session of a workspace is, with invalid_body and the name of the field.
func (r *RampSession) Check(workspace string) error {
	id, err := ident.Parse(ident.RampSession, r.ID)
	hosted, errURL := url.Parse(r.HostedURL)
	_, status := rampMoves[r.Status]
	bad := ""
	switch {
	case err != nil || id.Slot() != slotOf(workspace):
		bad = "id: an rs_ id of the workspace"
	case r.Direction != RampOn && r.Direction != RampOff:
		bad = "direction: onramp or offramp"
	case !status:
		bad = "status: created, processing, completed or failed"
	case r.AmountCents < 1 || r.AmountCents > money.MaxAmount:
		bad = fmt.Sprintf("amountCents: 1 to %d", money.MaxAmount)
	case errURL != nil || len(r.HostedURL) > maxHostedURL || hosted.Host == "" ||
		!slices.Contains([]string{"http", "https"}, hosted.Scheme):
		bad = fmt.Sprintf("hostedUrl: an http or https URL of at most %d bytes", maxHostedURL)
	case r.CreatedAt.IsZero():
		bad = "createdAt: when it was made"
	case r.UpdatedAt.Before(r.CreatedAt.Time):
		bad = "updatedAt: not before createdAt"
	default:
		return nil
	}
	return fault.New(fault.InvalidBody, bad)
}

func (b ramps) importRampSession(m decision.Meta, c ImportRampSession) (decision.Decision, error) {
	if err := c.Session.Check(c.Workspace); err != nil {
		return decision.Decision{}, err
	}
	said := c.Session
	said.HostedURL = "" // whoever has it may open the page
	return decision.Decision{
		Events:  []decision.Event{RampSessionImported{Workspace: c.Workspace, Session: said, At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordRampSession, Parent: c.Session.Direction, ID: c.Session.ID, Document: c.Session}},
		Onces:   []decision.Once{{Scope: scopeRampImport, Key: c.Session.ID}},
	}, nil
}

// reportRampSession credits an on-ramp that completed and gives back an off-ramp that failed; the others moved their money before
// they were brought over. Of two reports that were read at the same time the second is to come again.
func (b ramps) reportRampSession(m decision.Meta, c ReportRamp) (decision.Decision, error) {
	r := *c.Session
	switch {
	case r.ID != c.ID:
		return decision.Decision{}, fault.New(fault.NotFound, "")
	case r.Status == c.Outcome:
		return decision.Decision{}, nil
	case !r.open():
		return decision.Decision{}, fault.New(fault.RampConflict,
			fmt.Sprintf("a session that is %s cannot be %s", r.Status, c.Outcome))
	}
	e := RampSessionMoved{Workspace: b.Workspace, Session: r.ID, Direction: r.Direction, From: r.Status, To: c.Outcome,
		AmountCents: r.AmountCents, EventID: c.EventID, Postings: []Posting{}, At: decision.StampOf(m.At)}
	r.Status, r.UpdatedAt = e.To, e.At
	d := decision.Decision{Records: []decision.Record{{Kind: RecordRampSession, Parent: r.Direction, ID: r.ID, Document: r}}}
	if source := sessionCredit(r); source != "" {
		t := transfer{workspace: b.Workspace, account: AccountStablecoin, counterpart: AccountRamp, cents: r.AmountCents,
			source: source, reference: r.ID, cause: "ramp/session/" + r.ID, at: m.At}
		if !b.holdsRamp(t) {
			return decision.Decision{}, overflow()
		}
		e.Postings = t.postings()
		d.Records = append(d.Records, t.record())
	}
	d.Events = []decision.Event{e}
	d.Onces = append(rampClaim(m, c.EventID),
		decision.Once{Scope: scopeRampSession, Key: r.ID, Code: string(fault.Stale),
			Message: "the session"})
	return d, nil
}

// sessionCredit is the source of what a finished session is credited; "" for nothing.
func sessionCredit(r RampSession) string {
	switch r.Direction + " " + r.Status {
	case RampOn + " " + RampCompleted:
		return sourceOnramp
	case RampOff + " " + RampFailed:
		return sourceRampReversal
	}
	return ""
}

func (b ramps) applyRampSessionMoved(e RampSessionMoved) {
	b.Workspace = e.Workspace
	b.postRamp(e.Postings)
}
